"""TLS: certificates and what is demanded of clients.

Decided here: how a tls block becomes an SSL context and which client certificates pass beyond OpenSSL's own checks.
Not known here: when in a connection the handshake happens.
"""

from __future__ import annotations

import hashlib
import ssl
from typing import Final

from jetspark.server.options import OptionsError, TlsOptions

_VERSIONS: Final = {"": ssl.TLSVersion.TLSv1_2, "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def ssl_context(options: TlsOptions, *, asks_clients: bool = True) -> ssl.SSLContext:
    """A server's context; raises OptionsError when a file cannot be used.

    Without `asks_clients` nobody needs a certificate, whatever the options say: for monitoring.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version]
    try:
        context.load_cert_chain(options.cert_file, options.key_file)
    except (OSError, ssl.SSLError) as error:
        raise OptionsError(f"error parsing X509 certificate/key pair: {error}") from None
    if options.cipher_suites:
        try:
            context.set_ciphers(":".join(_openssl_name(name) for name in options.cipher_suites))
        except ssl.SSLError:
            raise OptionsError(f"unrecognized cipher {', '.join(options.cipher_suites)}") from None
    if options.ca_file:
        try:
            context.load_verify_locations(options.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise OptionsError(f"error parsing ca_file: {error}") from None
    if options.verify and asks_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        if not options.ca_file:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def renew(context: ssl.SSLContext | None, options: TlsOptions | None) -> None:
    """Have the files read again for handshakes to come; raises OptionsError, and changes nothing, when they are bad."""
    if context is None or options is None:
        return
    # Tried elsewhere first: a context that gets a certificate without its key is of no use any more.
    ssl_context(options)
    context.load_cert_chain(options.cert_file, options.key_file)
    if options.ca_file:
        context.load_verify_locations(options.ca_file)


def _openssl_name(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 as OpenSSL spells it: ECDHE-RSA-AES128-GCM-SHA256."""
    if not name.startswith("TLS_") or "_WITH_" not in name:
        return name
    exchange, cipher = name.removeprefix("TLS_").split("_WITH_", 1)
    cipher = (
        cipher.replace("AES_128", "AES128")
        .replace("AES_256", "AES256")
        .replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    )
    return f"{exchange}_{cipher}".replace("_", "-")


def is_pinned(certificate_der: bytes, pinned: frozenset[str]) -> bool:
    """Is the certificate's public key one of those the operator listed (by SHA-256, in hex)?"""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    certificate = x509.load_der_x509_certificate(certificate_der)
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest() in pinned


def certificate_names(certificate_der: bytes) -> list[str]:
    """Names a certificate may log in as, in the order they are tried: e-mail, DNS, URI, then the whole subject."""
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(certificate_der)
    names: list[str] = []
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternative = None
    if alternative is not None:
        names += alternative.get_values_for_type(x509.RFC822Name)
        names += alternative.get_values_for_type(x509.DNSName)
        names += alternative.get_values_for_type(x509.UniformResourceIdentifier)
    names.append(certificate.subject.rfc4514_string())
    return names
