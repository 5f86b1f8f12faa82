import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from assay.core.model.errors import Invalid
from assay.core.schedules import timetable
from assay.core.schedules.cron import parse_cron
from assay.core.schedules.timetable import Every, Timetable, next_fire, parse_timetable, parse_zone

SECOND = 1_000_000


def instant(text: str, zone: str = "UTC") -> int:
    """Microseconds of a time on the clocks of `zone`, or of a text with its own offset."""
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
    return round(moment.timestamp()) * SECOND


def shown(fire: int | None, zone: str = "UTC") -> str | None:
    return fire and datetime.fromtimestamp(fire / SECOND, ZoneInfo(zone)).isoformat()


def fires(expression: str, zone: str, after: str, count: int, dst: str = "skip") -> list[str | None]:
    found = parse_timetable(expression, zone, dst).preview(instant(after, zone), count, anchor=0)
    return [shown(fire, zone) for fire in found]


def next_utc(expression: str, after: str) -> str | None:
    fire = parse_timetable(expression).next(instant(after), anchor=0)
    return fire and datetime.fromtimestamp(fire / SECOND, UTC).strftime("%a %Y-%m-%d %H:%M:%S")


def refusal(expression: str, zone: str = "UTC", dst: str = "skip") -> Invalid:
    with pytest.raises(Invalid) as caught:
        parse_timetable(expression, zone, dst)
    return caught.value


class TestDialect:
    # 2026-01-01 is a Thursday.
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("0 0 0 * * 1", "Sun 2026-01-04 00:00:00"),
            ("0 0 0 * * 7", "Sat 2026-01-03 00:00:00"),
            ("0 0 0 * * 2-6", "Fri 2026-01-02 00:00:00"),
            ("0 0 0 * * Mon", "Mon 2026-01-05 00:00:00"),
            ("0 0 0 * * TUES", "Tue 2026-01-06 00:00:00"),
            ("0 0 0 * * thurs,wednesday", "Wed 2026-01-07 00:00:00"),
            ("0 0 0 * * mon-fri/2", "Fri 2026-01-02 00:00:00"),
            ("0 0 0 1 september *", "Tue 2026-09-01 00:00:00"),
            ("0 0 0 1 FEB-april *", "Sun 2026-02-01 00:00:00"),
            ("0 0 0 1 jan-dec/5 *", "Mon 2026-06-01 00:00:00"),
            ("30 * * * * *", "Thu 2026-01-01 10:00:30"),
            ("*/7 * * * * *", "Thu 2026-01-01 10:00:07"),
            ("50/7 * * * * *", "Thu 2026-01-01 10:00:50"),
            ("10-20/7 * * * * *", "Thu 2026-01-01 10:00:10"),
            ("59,05,30 * * * * *", "Thu 2026-01-01 10:00:05"),
            ("0 59/1 * * * *", "Thu 2026-01-01 10:59:00"),
            ("0 0 */23 * * *", "Thu 2026-01-01 23:00:00"),
            ("0 0 0 */2 * ?", "Sat 2026-01-03 00:00:00"),
            ("0 0 0 ?/2 * *", "Sat 2026-01-03 00:00:00"),
            ("0 0 0 31 * *", "Sat 2026-01-31 00:00:00"),
            ("0 0 0 13 * fri", "Fri 2026-02-13 00:00:00"),  # AND: Friday the thirteenth
            ("0 0 0 29 2 *", "Tue 2028-02-29 00:00:00"),
            ("0 0 0 29 2 2", "Mon 2044-02-29 00:00:00"),
            ("0 0 0 1 1 ? 2030", "Tue 2030-01-01 00:00:00"),
            ("0 0 0 1 1 * 2020,2100", "Fri 2100-01-01 00:00:00"),
            ("59 59 23 31 12 * 2100", "Fri 2100-12-31 23:59:59"),
            ("0 0 0 1 1 * 2027/10", "Fri 2027-01-01 00:00:00"),
            ("  0\t0   12 *  *  * ", "Thu 2026-01-01 12:00:00"),
            ("@yearly", "Fri 2027-01-01 00:00:00"),
            ("@annually", "Fri 2027-01-01 00:00:00"),
            ("@monthly", "Sun 2026-02-01 00:00:00"),
            ("@weekly", "Sun 2026-01-04 00:00:00"),
            ("@daily", "Fri 2026-01-02 00:00:00"),
            ("@midnight", "Fri 2026-01-02 00:00:00"),
            (" @hourly ", "Thu 2026-01-01 11:00:00"),
        ],
    )
    def test_seconds_first(self, expression: str, expected: str):
        assert next_utc(expression, "2026-01-01T10:00:00") == expected

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("* * * * *", "Thu 2026-01-01 10:01:00"),
            ("*/15 * * * *", "Thu 2026-01-01 10:15:00"),
            ("30 9 * * *", "Fri 2026-01-02 09:30:00"),
            ("0 0 * * 0", "Sun 2026-01-04 00:00:00"),
            ("0 0 * * 7", "Sun 2026-01-04 00:00:00"),
            ("0 0 * * 1", "Mon 2026-01-05 00:00:00"),
            ("0 0 * * sat", "Sat 2026-01-03 00:00:00"),
            ("0 0 * * 6-7", "Sat 2026-01-03 00:00:00"),
            ("0 0 * * sat-sun", "Sat 2026-01-03 00:00:00"),
            ("0 0 * * sun-sun", "Sun 2026-01-04 00:00:00"),
            ("0 0 * * 6/2", "Sat 2026-01-03 00:00:00"),
            ("0 0 13 * fri", "Fri 2026-01-02 00:00:00"),  # OR: the thirteenth, and every Friday
            ("0 0 13 * ?", "Tue 2026-01-13 00:00:00"),
            ("0 0 */13 * mon", "Mon 2026-04-27 00:00:00"),  # AND, for the day field starts with *
            ("0 0 29 2 *", "Tue 2028-02-29 00:00:00"),
            ("0 */6 * * *", "Thu 2026-01-01 12:00:00"),
        ],
    )
    def test_five_fields_are_unix(self, expression: str, expected: str):
        assert next_utc(expression, "2026-01-01T10:00:00") == expected

    def test_a_fire_is_strictly_later(self):
        every_second = parse_timetable("* * * * * *")
        assert every_second.next(5 * SECOND, anchor=0) == 6 * SECOND
        assert every_second.next(5 * SECOND - 1, anchor=0) == 5 * SECOND
        assert every_second.next(5 * SECOND + 1, anchor=0) == 6 * SECOND

    def test_years_end_in_2100(self):
        last = instant("2100-12-31T23:59:59")
        assert parse_timetable("* * * * * *").next(last - 1, anchor=0) == last
        for after in (last, last + SECOND, last * 2, 10**30):
            assert parse_timetable("* * * * * *").next(after, anchor=0) is None

    def test_years_begin_in_1970_on_the_zones_own_clock(self):
        assert parse_timetable("* * * * * *").next(-(10**30), anchor=0) == 0
        assert parse_timetable("* * * * * *", "Asia/Tokyo").next(-(10**30), anchor=0) == -9 * 3600 * SECOND

    def test_a_year_in_the_past_has_no_next(self):
        assert parse_timetable("0 0 0 1 1 * 2020").next(instant("2026-01-01"), anchor=0) is None


class TestRefusals:
    @pytest.mark.parametrize(
        ("expression", "at", "text"),
        [
            ("60 * * * * *", 0, "The second field '60'"),
            ("0 60 * * * *", 2, "The minute field '60'"),
            ("0 0 24 * * *", 4, "The hour field '24'"),
            ("0 0 0 0 * *", 6, "The day of month field '0'"),
            ("0 0 0 32 * *", 6, "The day of month field '32'"),
            ("0 0 0 1 13 *", 8, "The month field '13'"),
            ("0 0 0 1 sept *", 8, "The month field 'sept'"),
            ("0 0 0 * * 0", 10, "The day of week field '0'"),
            ("0 0 0 * * 8", 10, "The day of week field '8'"),
            ("0 0 0 * * 3-thu", 10, "The day of week field '3-thu'"),
            ("0 0 0 * * fri-mon", 10, "The day of week field 'fri-mon'"),
            ("0 0 0 * * fri/2", 10, "The day of week field 'fri/2'"),
            ("0 0 0 * * sun,xyz", 14, "The day of week field 'sun,xyz'"),
            ("0 0 0 1 1 * 1969", 12, "The year field '1969'"),
            ("0 0 0 1 1 * 2101", 12, "The year field '2101'"),
            ("0 0 0 1 1 * 2099-2101", 17, "The year field '2099-2101'"),
            ("*/60 * * * * *", 2, "The second field '*/60'"),
            ("0 */0 * * * *", 4, "The minute field '*/0'"),
            ("0 0 1,5-3 * * *", 6, "The hour field '1,5-3'"),
            ("0 0 1,,3 * * *", 6, "The hour field '1,,3'"),
            ("0 0 1, * * *", 6, "The hour field '1,'"),
            ("0 0 mon * * *", 4, "The hour field 'mon'"),
            ("? * * * * *", 0, "The second field '?'"),
            ("0 0 0 1 ? *", 8, "The month field '?'"),
            ("0 0 0 L * *", 6, "The day of month field 'L'"),
            ("0 0 0 15W * *", 6, "The day of month field '15W'"),
            ("0 0 0 * * 5#3", 10, "The day of week field '5#3'"),
            ("0 0 0 * * -1", 10, "The day of week field '-1'"),
            ("0 0 0 * * 1-2-3", 10, "The day of week field '1-2-3'"),
            ("0 0 0 * * */2/2", 10, "The day of week field '*/2/2'"),
            ("0 0 0 ١ * *", 6, "The day of month field"),  # noqa: RUF001 - a digit, but not one of ours
            ("* * * * 8", 8, "The day of week field '8'"),
            ("* * * * 6-0", 8, "The day of week field '6-0'"),
            ("60 * * * *", 0, "The minute field '60'"),
            ("CRON_TZ=Europe/Berlin 0 25 * * *", 24, "The hour field '25'"),
            ("@reboot", 0, "The cron name '@reboot'"),
            (" @Daily", 1, "The cron name '@Daily'"),
            ("@daily 5", 7, "@daily takes nothing after it, but has '5'"),
            ("@every", 6, "The duration ''"),
            ("@every 90", 7, "The duration '90'"),
            ("@every  1parsec", 8, "The duration '1parsec'"),
            ("@every 999ms", 7, "The duration '999ms'"),
            ("@every -5s", 7, "The duration '-5s'"),
            ("@every 1000000h", 7, "The duration '1000000h'"),
            ("TZ=UTC @every 0s", 14, "The duration '0s'"),
        ],
    )
    def test_point_at_the_field_and_the_character(self, expression: str, at: int, text: str):
        error = refusal(expression)
        assert (error.code, error.field) == ("bad_cron", "cron_expr")
        assert text in error.message
        assert re.search(rf"at character {at}\b", error.message), error.message

    def test_say_what_is_allowed(self):
        assert refusal("0 0 0 1,jan * *").message == (
            "The day of month field '1,jan' is wrong at character 8: the name 'jan' is not known. "
            "Allowed: 1-31, * or ?, ranges a-b, lists a,b and steps /1 to /31."
        )
        assert "Allowed: 0-7 or sun-sat, * or ?," in refusal("0 0 * * 8").message
        assert "the range fri-mon runs backwards (6-2)" in refusal("0 0 0 * * fri-mon").message

    @pytest.mark.parametrize(("expression", "count"), [("", 0), (" ", 0), ("* * * *", 4), ("* * * * * * * *", 8)])
    def test_the_number_of_fields(self, expression: str, count: int):
        error = refusal(expression)
        assert error.code == "bad_cron"
        assert f"has {count} fields; allowed are 5 (" in error.message

    def test_long_texts_are_not_repeated_whole(self):
        assert len(refusal("a" * 2000 + " * * * * *").message) < 400
        assert "10000 characters long; 2000 are allowed" in refusal("*" * 10_000).message

    @pytest.mark.parametrize(
        ("expression", "zone"),
        [
            ("0 0 0 30 2 *", "UTC"),
            ("0 0 30 2 *", "UTC"),
            ("0 0 0 31 4,6,9,11 *", "UTC"),
            ("0 0 0 29 2 * 2025-2027", "UTC"),
            ("0 0 0 1 1 2 2025", "UTC"),  # a Wednesday
            ("0 30 2 29 3 * 2026", "Europe/Berlin"),  # in the gap
            ("0 0 12 30 12 * 2011", "Pacific/Apia"),  # a day that was not
        ],
    )
    def test_what_never_fires(self, expression: str, zone: str):
        assert refusal(expression, zone).code == "never_fires"

    def test_dst(self):
        error = refusal("@daily", dst="maybe")
        assert (error.code, error.field) == ("bad_dst", "dst")


class TestZones:
    @pytest.mark.parametrize("name", ["", "UTC", "utc", "Utc"])
    def test_utc_needs_no_zone_files(self, name: str):
        assert parse_zone(name) is UTC

    @pytest.mark.parametrize("name", ["Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "GMT", "EST5EDT"])
    def test_iana_names(self, name: str):
        assert parse_zone(name).utcoffset(datetime(2026, 1, 1, tzinfo=UTC)) is not None

    @pytest.mark.parametrize(
        "name",
        [
            *["europe/berlin", "EUROPE/BERLIN", "Europe", "Mars/Olympus", " UTC", "+01:00", "CEST", "Europe/Berlin "],
            *["localtime", "posixrules", "right/UTC", "posix/Europe/Berlin", "Factory", "zone.tab", "tzdata.zi"],
            *[
                "../../../etc/localtime",
                "/etc/localtime",
                "Europe/../UTC",
                "Europe//Berlin",
                "a\0b",
                "\ud800",
                "A" * 9999,
            ],
        ],
    )
    def test_other_names_are_refused(self, name: str):
        error = refusal("@daily", name)
        assert (error.code, error.field) == ("bad_timezone", "timezone")
        assert len(error.message) < 300

    def test_a_file_system_that_ignores_case_changes_nothing(self, monkeypatch: pytest.MonkeyPatch):
        berlin = ZoneInfo("Europe/Berlin")
        monkeypatch.setattr(timetable, "ZoneInfo", lambda name: berlin)
        parse_zone.cache_clear()
        assert parse_zone("Europe/Berlin") is berlin
        assert refusal("@daily", "europe/berlin").code == "bad_timezone"
        parse_zone.cache_clear()

    @pytest.mark.parametrize("prefix", ["CRON_TZ=America/New_York ", "TZ=America/New_York\t", " TZ=America/New_York  "])
    def test_a_prefix_sets_the_zone(self, prefix: str):
        with_prefix = parse_timetable(prefix + "0 9 * * *", "Europe/Berlin")
        assert with_prefix == parse_timetable("0 9 * * *", "America/New_York")

    def test_a_bad_prefix_is_a_bad_zone(self):
        assert refusal("CRON_TZ=Mars/Olympus 0 9 * * *").code == "bad_timezone"
        assert refusal("CRON_TZ=Mars/Olympus @every 5s").code == "bad_timezone"
        assert refusal("cron_tz=UTC 0 9 * * *").code == "bad_cron"


class TestGaps:
    @pytest.mark.parametrize(
        ("expression", "zone", "after", "skipped", "shifted"),
        [
            (
                "0 30 2 * * *",
                "Europe/Berlin",
                "2026-03-28T12:00",
                "2026-03-30T02:30:00+02:00",
                "2026-03-29T03:00:00+02:00",
            ),
            (
                "30 2 * * *",
                "America/New_York",
                "2026-03-07T12:00",
                "2026-03-09T02:30:00-04:00",
                "2026-03-08T03:00:00-04:00",
            ),
            (
                "15 2 * * *",
                "Australia/Lord_Howe",
                "2026-10-03T12:00",
                "2026-10-05T02:15:00+11:00",
                "2026-10-04T02:30:00+11:00",
            ),
            (
                "0 12 * * *",
                "Pacific/Apia",
                "2011-12-29T12:00",
                "2011-12-31T12:00:00+14:00",
                "2011-12-31T00:00:00+14:00",
            ),
            (
                "0 0 * * *",
                "America/Sao_Paulo",
                "2018-11-03T12:00",
                "2018-11-05T00:00:00-02:00",
                "2018-11-04T01:00:00-02:00",
            ),
            (
                "30 2 * * *",
                "Africa/Casablanca",
                "2026-03-21T12:00",
                "2026-03-23T02:30:00+01:00",
                "2026-03-22T03:00:00+01:00",
            ),
            (
                "30 0 * * *",
                "America/St_Johns",
                "2010-03-13T12:00",
                "2010-03-15T00:30:00-02:30",
                "2010-03-14T01:01:00-02:30",
            ),
            (
                "0 0 * * *",
                "Africa/Monrovia",
                "1972-01-06T12:00",
                "1972-01-08T00:00:00+00:00",
                "1972-01-07T00:44:30+00:00",
            ),
        ],
    )
    def test_a_missing_time_is_skipped_or_shifted(
        self, expression: str, zone: str, after: str, skipped: str, shifted: str
    ):
        assert fires(expression, zone, after, 1) == [skipped]
        assert fires(expression, zone, after, 1, dst="both") == [skipped]
        assert fires(expression, zone, after, 1, dst="shift") == [shifted]

    def test_all_that_a_gap_swallowed_fires_once(self):
        assert fires("*/10 2,3 * * *", "Europe/Berlin", "2026-03-29T01:59", 3, dst="shift") == [
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:10:00+02:00",
            "2026-03-29T03:20:00+02:00",
        ]
        assert fires("*/10 2 * * *", "Europe/Berlin", "2026-03-29T01:59", 2, dst="shift") == [
            "2026-03-29T03:00:00+02:00",
            "2026-03-30T02:00:00+02:00",
        ]

    def test_intervals_pass_over_a_gap(self):
        assert fires("0 0 * * * *", "Europe/Berlin", "2026-03-29T00:59", 3) == [
            "2026-03-29T01:00:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T04:00:00+02:00",
        ]

    def test_a_stepped_hour_in_the_gap_can_be_shifted(self):
        assert fires("0 0 */2 * * *", "Europe/Berlin", "2026-03-29T00:59", 1) == ["2026-03-29T04:00:00+02:00"]
        assert fires("0 0 */2 * * *", "Europe/Berlin", "2026-03-29T00:59", 2, dst="shift") == [
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T04:00:00+02:00",
        ]


class TestRepeats:
    @pytest.mark.parametrize(
        ("expression", "zone", "after", "first", "second", "third"),
        [
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-10-24T12:00",
                "2026-10-25T02:30:00+02:00",
                "2026-10-25T02:30:00+01:00",
                "2026-10-26T02:30:00+01:00",
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2026-10-31T12:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-01T01:30:00-05:00",
                "2026-11-02T01:30:00-05:00",
            ),
            (
                "45 1 * * *",
                "Australia/Lord_Howe",
                "2026-04-04T12:00",
                "2026-04-05T01:45:00+11:00",
                "2026-04-05T01:45:00+10:30",
                "2026-04-06T01:45:00+10:30",
            ),
            (
                "30 23 * * *",
                "America/Sao_Paulo",
                "2019-02-16T12:00",
                "2019-02-16T23:30:00-02:00",
                "2019-02-16T23:30:00-03:00",
                "2019-02-17T23:30:00-03:00",
            ),
            (
                "30 2 * * *",
                "Africa/Casablanca",
                "2026-02-14T12:00",
                "2026-02-15T02:30:00+01:00",
                "2026-02-15T02:30:00+00:00",
                "2026-02-16T02:30:00+00:00",
            ),
            (
                "30 23 * * *",
                "America/St_Johns",
                "2010-11-06T12:00",
                "2010-11-06T23:30:00-02:30",
                "2010-11-06T23:30:00-03:30",
                "2010-11-07T23:30:00-03:30",
            ),
            (
                "0 0 * * *",
                "America/Havana",
                "2025-11-01T12:00",
                "2025-11-02T00:00:00-04:00",
                "2025-11-02T00:00:00-05:00",
                "2025-11-03T00:00:00-05:00",
            ),
        ],
    )
    def test_a_repeated_time_fires_once_or_twice(
        self, expression: str, zone: str, after: str, first: str, second: str, third: str
    ):
        assert fires(expression, zone, after, 2) == [first, third]
        assert fires(expression, zone, after, 2, dst="shift") == [first, third]
        assert fires(expression, zone, after, 3, dst="both") == [first, second, third]

    def test_asking_in_the_second_pass_repeats_nothing(self):
        assert fires("*/20 2,3 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", 2) == [
            "2026-10-25T03:00:00+01:00",
            "2026-10-25T03:20:00+01:00",
        ]

    def test_the_second_pass_reaches_no_further_than_the_repeated_hour(self):
        # Asked while 02:30 comes twice in 2026; on 28 March 2027 it does not come at all.
        assert fires("30 2 28 3 *", "Europe/Berlin", "2026-10-25T02:10:00+02:00", 1, dst="both") == [
            "2028-03-28T02:30:00+02:00"
        ]

    def test_a_day_that_ends_twice(self):
        # In St John's at 00:01 the clocks went back to 23:01 of the day before.
        assert fires("0,30 0,23 * * *", "America/St_Johns", "2010-11-06T23:30:00-02:30", 3) == [
            "2010-11-07T00:00:00-02:30",
            "2010-11-07T00:30:00-03:30",
            "2010-11-07T23:00:00-03:30",
        ]
        assert fires("0,30 0,23 * * *", "America/St_Johns", "2010-11-06T23:30:00-02:30", 4, dst="both") == [
            "2010-11-07T00:00:00-02:30",
            "2010-11-06T23:30:00-03:30",
            "2010-11-07T00:00:00-03:30",
            "2010-11-07T00:30:00-03:30",
        ]

    @pytest.mark.parametrize("dst", ["skip", "shift", "both"])
    @pytest.mark.parametrize(
        ("expression", "period"),
        [("*/5 * * * * *", 5), ("0 */5 * * * *", 300), ("*/15 * * * *", 900), ("0 0 * * * *", 3600), ("@hourly", 3600)],
    )
    @pytest.mark.parametrize(
        ("zone", "change"),
        [("Europe/Berlin", "2026-10-25T01:00+00:00"), ("America/New_York", "2026-11-01T06:00+00:00")],
    )
    def test_intervals_do_not_fall_silent(self, expression: str, period: int, zone: str, change: str, dst: str):
        start = instant(change) - 7200 * SECOND
        found = parse_timetable(expression, zone, dst).fires_between(start, start + 4 * 3600 * SECOND, 5000, anchor=0)
        assert found == [start + period * SECOND * number for number in range(1, 14400 // period + 1)]

    @pytest.mark.parametrize("hours", ["*", "*/1", "0-23", "0/1", "00-23/1", "0-11,12-23"])
    def test_every_hour_is_an_interval_however_written(self, hours: str):
        assert len(fires(f"0 30 {hours} * * *", "Europe/Berlin", "2026-10-25T01:00", 3)) == 3
        assert fires(f"0 30 {hours} * * *", "Europe/Berlin", "2026-10-25T02:00:00+02:00", 2) == [
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:30:00+01:00",
        ]

    @pytest.mark.parametrize(
        ("hours", "twice"), [("*/2", True), ("0/2", True), ("0-23/2", True), ("0,2,4", False), ("0-22/2", False)]
    )
    def test_a_step_over_all_hours_is_an_interval_and_a_list_is_not(self, hours: str, twice: bool):
        second = fires(f"0 0 {hours} * * *", "Europe/Berlin", "2026-10-25T02:00:00+02:00", 1)
        assert second == ["2026-10-25T02:00:00+01:00" if twice else "2026-10-25T04:00:00+01:00"]


class TestEvery:
    def test_counts_from_the_anchor(self):
        every = parse_timetable("@every 90s")
        anchor = 1_000_000_123_456
        assert every.preview(anchor, 3, anchor) == [anchor + step * 90 * SECOND for step in (1, 2, 3)]
        assert every.next(anchor + 90 * SECOND - 1, anchor) == anchor + 90 * SECOND
        assert every.next(anchor + 90 * SECOND, anchor) == anchor + 180 * SECOND

    def test_nothing_before_the_first_interval(self):
        assert parse_timetable("@every 1h30m").next(0, anchor=10**12) == 10**12 + 5400 * SECOND

    def test_elapsed_time_knows_no_zone(self):
        every = parse_timetable(" CRON_TZ=Europe/Berlin  @every\t1.5s ")
        assert every.rule == Every(1_500_000)
        assert every.next(instant("2026-10-25T02:59:59+02:00"), anchor=0) % 1_500_000 == 0

    def test_one_second_is_the_least(self):
        assert parse_timetable("@every 1s").rule == Every(SECOND)


class TestLists:
    def test_preview_stops_at_the_last(self):
        assert [shown(fire) for fire in parse_timetable("0 0 0 1 1 * 2026-2027").preview(0, 5, anchor=0)] == [
            "2026-01-01T00:00:00+00:00",
            "2027-01-01T00:00:00+00:00",
        ]

    def test_between_excludes_the_start_and_includes_the_end(self):
        minutes = parse_timetable("0 * * * * *")
        assert minutes.fires_between(60 * SECOND, 180 * SECOND, 10, anchor=0) == [120 * SECOND, 180 * SECOND]
        assert minutes.fires_between(60 * SECOND, 600 * SECOND, 2, anchor=0) == [120 * SECOND, 180 * SECOND]
        assert minutes.fires_between(60 * SECOND, 60 * SECOND, 2, anchor=0) == []

    def test_next_fire_needs_no_timetable(self):
        times, zone, after = parse_cron("0 9 * * *"), parse_zone("Europe/Berlin"), instant("2026-01-01")
        assert next_fire(times, zone, after) == Timetable(times, zone).next(after, anchor=0)
