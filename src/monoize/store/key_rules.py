"""Which transforms the key of a user who is no admin may carry (seed 1.4).

The others could change what a call costs or where it goes: fields of the wire, the model's name, the length of the
answer. A transform that is not named here, such as one of an installed package, is for admins.
"""

from __future__ import annotations

from collections.abc import Iterable

from monoize.account import Role
from monoize.errors import Forbidden
from monoize.settings import RuleSettings

__all__ = ["ALLOWED", "allowed_rules", "check_rules"]

ALLOWED = frozenset(
    {
        # request
        "append_empty_user_message",
        "auto_cache_openai_prompt",
        "auto_cache_system",
        "auto_cache_tool_use",
        "auto_cache_user_id",
        "developer_to_system_role",
        "inject_system_prompt",
        "merge_consecutive_roles",
        "strip_input_reasoning",
        "strip_orphaned_tool_use",
        "system_to_developer_role",
        # response
        "reasoning_to_think_xml",
        "strip_encrypted_reasoning",
        "strip_reasoning",
        "think_xml_to_reasoning",
    }
)


def check_rules(rules: Iterable[RuleSettings], role: Role) -> None:
    for index, rule in enumerate(rules):
        if role != "admin" and rule.transform not in ALLOWED:
            raise Forbidden(
                f"the transform {rule.transform!r} may be used on keys of admins only",
                param=f"policy.transforms[{index}].transform",
                code="transform_not_allowed",
            )


def allowed_rules(rules: tuple[RuleSettings, ...], role: Role) -> tuple[RuleSettings, ...]:
    """What is left of a stored list, should its owner be an admin no longer."""
    if role == "admin":
        return rules
    return tuple(rule for rule in rules if rule.transform in ALLOWED)
