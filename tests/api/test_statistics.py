"""Numbers over many runs, values for menus, trees, and filters by what runs wait for."""

from tests.api.support import Http, Worker, activity, complete, fresh


def ids(http: Http, query: str) -> set[str]:
    return {run["id"] for run in http.get(f"/workflows?{query}").json()}


def test_runs_are_found_by_their_waits(http: Http):
    space = fresh("space")
    queue = "orders"
    worker = Worker(http, queue, namespace=space, workflows=["Order"], activities=["charge"])

    def started(**fields: object) -> str:
        body = {"workflow_type": "Order", "task_queue": queue, **fields}
        name: str = http.post(f"/workflows?namespace={space}", body).json()["workflow_id"]
        return name

    signal, retry, unserved = started(), started(), started()
    for name in (signal, retry, unserved):
        worker.turn(
            name,
            *{
                signal: [{"type": "WaitForSignal", "name": "go"}],
                retry: [activity(task_queue=queue, max_attempts=9, initial_interval_secs=60)],
                unserved: [activity(task_queue=queue, name="resize")],
            }[name],
        )
    worker.fail(worker.activity(), "busy")
    lonely, misnamed = started(task_queue="nobody"), started(workflow_type="Other")
    where = f"namespace={space}&"
    assert ids(http, f"{where}waiting=signal") == {signal}
    assert ids(http, f"{where}waiting=activity_retry,signal") == {signal, retry}
    assert ids(http, f"{where}waiting=no_worker") == {lonely}
    assert ids(http, f"{where}waiting=no_handler") == {unserved, misnamed}
    assert ids(http, f"{where}attention=person") == {signal}
    assert ids(http, f"{where}attention=operator") == {unserved, misnamed, lonely}
    assert http.get(f"/workflows?{where}attention=none").status == 400
    assert http.get(f"/workflows?{where}waiting=godot").status == 400
    counted = http.get(f"/workflow-counts?namespace={space}").json()
    assert counted["attention"] == {"operator": 3, "person": 1, "capped": False}
    assert (counted["total"], counted["by_status"]["RUNNING"], counted["by_status"]["PENDING"]) == (5, 3, 2)
    facets = {one["value"]: one["open"] for one in http.get(f"/facets?namespace={space}&field=type").json()}
    assert facets == {"Order": 4, "Other": 1}
    queues = {one["value"] for one in http.get(f"/facets?namespace={space}&field=queue&prefix=or").json()}
    assert queues == {"orders"}


def test_a_histogram_counts_by_the_time_of_the_start(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    for number in range(3):
        body = {"workflow_type": "Order", "task_queue": "q"}
        name = http.post(f"/workflows?namespace={space}", body).json()["workflow_id"]
        worker.turn(name, *([complete(1)] if number else []))
    found = http.get(f"/workflow-histogram?namespace={space}&buckets=10").json()
    assert len(found["buckets"]) == 10
    assert (found["buckets"][-1]["started"], found["approximate"]) == (3, False)
    assert http.get("/workflow-histogram?buckets=121").status == 400
    assert http.get("/workflow-histogram?from=5&to=4").status == 400


def test_attributes_are_found_for_menus(http: Http):
    space = fresh("space")
    for value in ("prod", "prod", "test", 5):
        body = {"workflow_type": "Order", "search_attributes": {"env": value, "other": True}}
        http.post(f"/workflows?namespace={space}", body)
    keys = http.get(f"/facets?namespace={space}&field=attribute_key").json()
    assert [one["value"] for one in keys] == ["env", "other"]
    values = http.get(f"/facets?namespace={space}&field=attribute_value&key=env").json()
    assert {one["value"]: one["open"] for one in values} == {"prod": 2, "test": 1, 5: 1}
    short = http.get(f"/facets?namespace={space}&field=attribute_value&key=env&prefix=pr").json()
    assert [one["value"] for one in short] == ["prod"]
    assert http.get("/facets?field=nonsense").status == 400
    assert http.get("/facets?field=attribute_value").status == 400


def test_a_tree_has_ancestors_and_descendants(http: Http):
    queue, kid, grandkid = fresh("queue"), fresh("kid"), fresh("grandkid")
    worker, root = Worker(http, queue), http.start(task_queue=queue)["workflow_id"]
    for parent, child in ((root, kid), (kid, grandkid)):
        start = {"type": "StartChildWorkflow", "workflow_type": "Kid", "workflow_id": child, "task_queue": queue}
        worker.turn(parent, start)
    found = http.get(f"/workflows/{kid}/tree").json()
    assert [node["workflow_id"] for node in found["path"]] == [root]
    assert found["path"][0]["children"] is None
    assert found["node"]["workflow_id"] == kid
    assert [node["workflow_id"] for node in found["node"]["children"]] == [grandkid]
    assert found["node"]["by_status"] == {"PENDING": 1}
    assert found["node"]["children"][0]["children"] == []
    shallow = http.get(f"/workflows/{root}/tree?depth=1").json()["node"]
    assert shallow["children"][0]["children"] is None
    assert shallow["children"][0]["child_count"] == 1
    assert http.get(f"/workflows/{root}/tree?depth=6").status == 400
