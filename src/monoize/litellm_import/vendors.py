"""Whom LiteLLM's prefixes mean: the protocol they speak here, their address, and where their key usually is."""

from __future__ import annotations

import re

import msgspec

__all__ = ["UNSUPPORTED", "VENDORS", "Vendor", "inferred", "not_a_chat_model"]


class Vendor(msgspec.Struct, frozen=True):
    """A prefix of LiteLLM's model names."""

    type: str = "chat_completion"
    base_url: str | None = None  # None: the deployment names it
    variable: str | None = None  # where LiteLLM looks for the key; None: no key is needed
    below: str = ""  # what follows the address that LiteLLM is given
    globs: tuple[str, ...] = ()  # its models by their own names


_OPENAI_MODELS = ("gpt-*", "chatgpt-*", "codex-*", "o1*", "o3*", "o4*", "computer-use-*")

VENDORS = {
    "openai": Vendor(
        base_url="https://api.openai.com/v1", variable="OPENAI_API_KEY", globs=_OPENAI_MODELS
    ),
    "azure": Vendor(variable="AZURE_API_KEY", below="/openai/v1"),
    "azure_ai": Vendor(variable="AZURE_AI_API_KEY", below="/openai/v1"),
    "anthropic": Vendor(
        "messages", "https://api.anthropic.com", "ANTHROPIC_API_KEY", globs=("claude-*",)
    ),
    "gemini": Vendor(
        "gemini",
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
        globs=("gemini-*", "gemma-*", "learnlm-*"),
    ),
    "xai": Vendor("grok", "https://api.x.ai/v1", "XAI_API_KEY", globs=("grok-*",)),
    "mistral": Vendor(
        base_url="https://api.mistral.ai/v1",
        variable="MISTRAL_API_KEY",
        globs=("mistral-*", "ministral-*", "magistral-*", "codestral-*", "devstral-*", "pixtral-*"),
    ),
    "deepseek": Vendor(
        base_url="https://api.deepseek.com/v1",
        variable="DEEPSEEK_API_KEY",
        globs=("deepseek-*",),
    ),
    "groq": Vendor(
        base_url="https://api.groq.com/openai/v1",
        variable="GROQ_API_KEY",
        globs=("llama-*", "openai/*", "qwen/*", "moonshotai/*", "groq/*"),
    ),
    "openrouter": Vendor(
        base_url="https://openrouter.ai/api/v1", variable="OPENROUTER_API_KEY", globs=("*/*",)
    ),
    "together_ai": Vendor(base_url="https://api.together.xyz/v1", variable="TOGETHERAI_API_KEY"),
    "fireworks_ai": Vendor(
        base_url="https://api.fireworks.ai/inference/v1", variable="FIREWORKS_AI_API_KEY"
    ),
    "deepinfra": Vendor(
        base_url="https://api.deepinfra.com/v1/openai", variable="DEEPINFRA_API_KEY"
    ),
    "cerebras": Vendor(base_url="https://api.cerebras.ai/v1", variable="CEREBRAS_API_KEY"),
    "sambanova": Vendor(base_url="https://api.sambanova.ai/v1", variable="SAMBANOVA_API_KEY"),
    "nvidia_nim": Vendor(
        base_url="https://integrate.api.nvidia.com/v1", variable="NVIDIA_NIM_API_KEY"
    ),
    "moonshot": Vendor(base_url="https://api.moonshot.ai/v1", variable="MOONSHOT_API_KEY"),
    "dashscope": Vendor(
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        variable="DASHSCOPE_API_KEY",
    ),
    "zai": Vendor(base_url="https://api.z.ai/api/paas/v4", variable="ZAI_API_KEY"),
    "volcengine": Vendor(
        base_url="https://ark.cn-beijing.volces.com/api/v3", variable="VOLCENGINE_API_KEY"
    ),
    "novita": Vendor(base_url="https://api.novita.ai/v3/openai", variable="NOVITA_API_KEY"),
    "nebius": Vendor(base_url="https://api.studio.nebius.ai/v1", variable="NEBIUS_API_KEY"),
    "hyperbolic": Vendor(base_url="https://api.hyperbolic.xyz/v1", variable="HYPERBOLIC_API_KEY"),
    "huggingface": Vendor(base_url="https://router.huggingface.co/v1", variable="HF_TOKEN"),
    "cohere": Vendor(base_url="https://api.cohere.ai/compatibility/v1", variable="COHERE_API_KEY"),
    "cohere_chat": Vendor(
        base_url="https://api.cohere.ai/compatibility/v1", variable="COHERE_API_KEY"
    ),
    "meta_llama": Vendor(base_url="https://api.llama.com/compat/v1", variable="LLAMA_API_KEY"),
    # Servers of one's own: the address is in the config, a key often is not.
    "ollama": Vendor(base_url="http://localhost:11434", below="/v1"),
    "ollama_chat": Vendor(base_url="http://localhost:11434", below="/v1"),
    "hosted_vllm": Vendor(),
    "vllm": Vendor(),
    "lm_studio": Vendor(),
    "llamafile": Vendor(),
    "llama_cpp": Vendor(),
    "xinference": Vendor(),
    "openai_like": Vendor(),
    "custom_openai": Vendor(),
    "litellm_proxy": Vendor(),
}

_CLOUD = "is reached with the cloud's own signatures, which Monoize does not make"
_OTHER = "speaks a protocol of its own that Monoize does not speak"
_NO_VERSION = "has an address without a version segment (/v1), which base_url cannot say"
UNSUPPORTED = {
    **dict.fromkeys(("bedrock", "bedrock_converse", "sagemaker", "sagemaker_chat"), _CLOUD),
    **dict.fromkeys(("vertex_ai", "vertex_ai_beta", "watsonx", "oci", "sap", "snowflake"), _CLOUD),
    **dict.fromkeys(
        ("replicate", "predibase", "cloudflare", "triton", "petals", "nlp_cloud"), _OTHER
    ),
    **dict.fromkeys(("ai21", "baseten", "palm", "aleph_alpha", "custom", "bytez"), _OTHER),
    **dict.fromkeys(("text-completion-openai", "text-completion-codestral"), _OTHER),
    **dict.fromkeys(("perplexity", "github", "databricks", "github_copilot"), _NO_VERSION),
    **dict.fromkeys(
        ("voyage", "jina_ai", "infinity", "topaz", "deepgram", "elevenlabs", "assemblyai"),
        "has no chat models",
    ),
}

# What LiteLLM makes of a name without a prefix.
_BARE = (
    (
        re.compile(r"(gpt-|chatgpt-|codex-|o[134](-|$)|ft:|text-embedding|dall-e|whisper|tts-)"),
        "openai",
    ),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini|imagen"), "vertex_ai"),
    (re.compile(r"command"), "cohere"),
)
_NOT_CHAT = re.compile(
    r"embed|rerank|whisper|transcri|(^|[-/])tts([-/]|$)|dall-e|gpt-image|imagen|moderation|instruct-ada|sora|veo-"
)


def inferred(model: str) -> str | None:
    return next((vendor for pattern, vendor in _BARE if pattern.match(model)), None)


def not_a_chat_model(model: str) -> bool:
    return _NOT_CHAT.search(model.lower()) is not None
