"""Options of `assay serve` about callers: their credentials, and the way by which they reach the engine."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from assay.server.auth_config import AuthConfig
    from assay.server.exposure_config import ExposureConfig

Command = TypeVar("Command", bound=Callable[..., Any])

AUTH: Final = (
    click.option("--auth-api-key", is_flag=True, help="Accept API keys; callers need a credential."),
    click.option("--auth-issuer", metavar="URL", help="Accept tokens (JWT) of this issuer; callers need a credential."),
    click.option("--auth-audience", metavar="AUD", help="Required audience of tokens."),
    click.option("--auth-jwks-url", metavar="URL", help="URL of the issuer's keys.  [default: by discovery]"),
    click.option(
        "--auth-header",
        metavar="NAME",
        help="A further request header with a token, such as Cf-Access-Jwt-Assertion.",
    ),
    click.option(
        "--auth-roles-claim",
        metavar="NAME",
        help="Claim with roles, such as realm_access.roles; without it, every token is an admin.",
    ),
    click.option(
        "--auth-namespaces-claim", metavar="NAME", help="Claim with the namespaces of roles that name no namespace."
    ),
    click.option(
        "--auth-role",
        multiple=True,
        metavar="VALUE=ROLE[@NAMESPACE]",
        help="Role for a value of the roles claim: reader, worker, operator or admin; may be repeated.",
    ),
    click.option(
        "--auth-client-id",
        metavar="ID",
        help="Let people sign in at the issuer, with the engine as this client.  "
        "[secret: env ASSAY_AUTH_CLIENT_SECRET, or ASSAY_AUTH_CLIENT_SECRET_FILE for a file]",
    ),
    click.option(
        "--auth-scope", metavar="TEXT", help="Scopes of a sign-in at the issuer.  [default: openid profile email]"
    ),
    click.option(
        "--auth-label", metavar="TEXT", help="Name of the issuer on the sign-in page.  [default: the issuer's host]"
    ),
)

EXPOSURE: Final = (
    click.option(
        "--public-url",
        metavar="URL",
        help="Address under which browsers reach the engine, such as https://engine.example.com.",
    ),
    click.option(
        "--allowed-host",
        multiple=True,
        metavar="NAME",
        help="A further host name of the engine, such as engine or *.example.com; may be repeated.  "
        "[env: ASSAY_ALLOWED_HOSTS, with commas]",
    ),
    click.option(
        "--cors-origin",
        multiple=True,
        metavar="ORIGIN",
        help="Origin of another site whose pages may call the engine, such as https://app.example.com; may be "
        "repeated.",
    ),
    click.option(
        "--trusted-proxy",
        multiple=True,
        metavar="CIDR",
        help="Address of a proxy whose X-Forwarded headers count, such as 10.0.0.0/8; may be repeated.",
    ),
    click.option("--tls-cert", metavar="FILE", help="Certificate chain (PEM): serve https; read again on a change."),
    click.option("--tls-key", metavar="FILE", help="Private key (PEM) of the certificate."),
    click.option(
        "--rate-limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="Most requests a second of one credential; without authentication, of one address.  [default: no limit]",
    ),
    click.option("--metrics-public", is_flag=True, help="Serve /metrics to callers without a credential."),
    click.option("--audit", is_flag=True, help="Record who changed what, also without authentication."),
)


def auth_options(command: Command) -> Command:
    """Add the options about credentials."""
    return _added(command, AUTH)


def exposure_options(command: Command) -> Command:
    """Add the options about names, proxies, TLS and limits."""
    return _added(command, EXPOSURE)


def _added(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def auth_config(flags: dict[str, Any]) -> "AuthConfig":
    """Return the accepted credentials of a command line."""
    from assay.server.auth_config import AuthConfig, client_secret

    return AuthConfig(
        api_key=flags["auth_api_key"],
        issuer=flags["auth_issuer"],
        audience=flags["auth_audience"],
        key_set_url=flags["auth_jwks_url"],
        header=flags["auth_header"],
        roles_claim=flags["auth_roles_claim"],
        namespaces_claim=flags["auth_namespaces_claim"],
        roles=flags["auth_role"],
        client_id=flags["auth_client_id"],
        client_secret=None if flags["auth_client_id"] is None else client_secret(),
        scope=flags["auth_scope"],
        label=flags["auth_label"],
    )


def exposure_config(flags: dict[str, Any]) -> "ExposureConfig":
    """Return the settings of a command line about the network around the engine."""
    from assay.server.exposure_config import ExposureConfig, allowed_hosts

    return ExposureConfig(
        public_url=flags["public_url"],
        allowed_hosts=(*flags["allowed_host"], *allowed_hosts()),
        cors_origins=flags["cors_origin"],
        trusted_proxies=flags["trusted_proxy"],
        tls_cert=flags["tls_cert"],
        tls_key=flags["tls_key"],
        rate_limit=flags["rate_limit"],
        metrics_public=flags["metrics_public"],
        audit=flags["audit"],
    )
