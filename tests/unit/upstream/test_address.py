import pytest

from monoize.upstream.address import joined_url


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://api.openai.com/v1", "/v1/responses", "https://api.openai.com/v1/responses"),
        ("https://api.openai.com/v1/", "/v1/responses", "https://api.openai.com/v1/responses"),
        ("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        (
            "https://openrouter.ai/api/v1",
            "/v1/chat/completions",
            "https://openrouter.ai/api/v1/chat/completions",
        ),
        (
            "https://x/v1beta/openai",
            "/v1/chat/completions",
            "https://x/v1beta/openai/chat/completions",
        ),
        (
            "https://api.z.ai/api/paas/v4",
            "/v1/chat/completions",
            "https://api.z.ai/api/paas/v4/chat/completions",
        ),
        (
            "https://g",
            "/v1beta/models/m:generateContent",
            "https://g/v1beta/models/m:generateContent",
        ),
        (
            "https://g/v1beta",
            "/v1beta/models/v2:generateContent",
            "https://g/v1beta/models/v2:generateContent",
        ),
        ("http://v1.example.org", "/v1/messages", "http://v1.example.org/v1/messages"),
    ],
)
def test_the_version_segment_is_never_doubled(base, path, url):
    assert joined_url(base, path) == url
