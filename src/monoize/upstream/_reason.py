"""Why a provider could not be reached, in words that tell nothing of what lies behind the gateway."""

from __future__ import annotations

import os
import ssl

__all__ = ["reason"]


def reason(error: BaseException) -> str:
    """A sentence without an address: what lies behind the gateway is not the caller's affair."""
    wrapped = (getattr(error, name, None) for name in ("os_error", "certificate_error"))
    cause = next((found for found in wrapped if found is not None), error)
    if isinstance(cause, ssl.SSLError):  # its errno is OpenSSL's, not the system's
        return f"TLS: {(cause.reason or 'handshake failed').lower().replace('_', ' ')}"
    number = getattr(cause, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else type(cause).__name__
