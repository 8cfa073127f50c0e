"""What a task asks for, by rules that are data: something done to files, or an answer.

A sentence counts as an order when one of its clauses begins with a verb of the table and has a thing of the table after it.
Questions and requests to explain come first (spec 5, phase 2b), except that what follows them (`… and then fix main.py`) is judged by
itself. English has the full table; German, French and Spanish orders are known when they name a file, a folder, tests or the like. What no rule
knows is no order.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

__all__ = ["ORDERS", "Intent", "Order", "intent_of"]

_SHOWN = 120
_LONGEST = 20_000  # characters that are looked at
_SENTENCE_LENGTH = 600  # of each sentence: the patterns are not linear


class Order(msgspec.Struct, frozen=True):
    """A row: the verbs that may begin a clause, and what must come after them."""

    id: str
    verbs: str
    things: str


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    is_order: bool
    rule: str
    matched: str = ""  # the clause that decided, cut to a length


_EXTENSIONS = (
    "bat|bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|dart|env|erl|ex|exs|go|gradle|graphql|h|hpp|hs|html|ini|ipynb|java|js|json|jsonl|jsx|"
    "kt|less|lock|log|lua|md|mjs|ml|patch|php|pl|proto|ps1|py|pyi|r|rb|rs|rst|sass|scala|scss|sh|sql|svelte|svg|swift|tex|tf|toml|ts|"
    "tsx|txt|vue|xml|yaml|yml|zig|zsh"
)
_PRODUCTS = (
    r"(?:node|vue|next|nuxt|express|three|d3|react|backbone|ember|chart|p5|discord|angular)\.js\b"
)
_PATH = (
    rf"(?:(?!{_PRODUCTS})(?<![\w/:.])(?:[\w.~-]*/)*[\w.-]*\w\.(?:{_EXTENSIONS})\b(?!\.\w)"
    r"|(?<!\S)(?:~|\.{1,2})?/[\w.~/-]+"
    r"|\b(?:src|tests?|lib|docs?|bin|app|pkg|cmd|scripts?|config|examples?|packages|internal)/[\w./-]*"
    r"|\b(?:makefile|dockerfile|readme|changelog|license|gitignore|procfile|vagrantfile|gemfile)\b)"
)
_PLACE = (
    r"\b(?:files?|folders?|director(?:y|ies)|repo(?:sitory|sitories)?s?|workspace|codebase|worktree)\b"
    r"|\b(?:this|the|my|our|your) (?:\w+ )?(?:project|code|package|module|script|branch|logs?|tests?|test suite|source)\b"
)
_CODE = (
    r"\b(?:unit tests?|tests?|test suite|functions?|class(?:es)?|methods?|modules?|scripts?|components?|endpoints?|migrations?|"
    r"decorators?|interfaces?|enums?|fixtures?|docstrings?|type hints?|config(?:uration)?|dependenc(?:y|ies)|imports?|code|program|"
    r"cli|api|route|handler|package|branch|tag|todos?|logging|error handling|pull request|commit|ci|workflow|pipeline)\b"
)
_FAULT = (
    r"\b(?:bugs?|errors?|issues?|failures?|typos?|warnings?|crash(?:es)?|leaks?|exceptions?|regressions?|race conditions?|"
    r"lint(?:er)?|build|failing|broken|conflicts?|deadlocks?|variables?|parameters?|arguments?|indentation|formatting)\b"
)
_POINTED = r"\W*(?:it|this|that|them|these|those|everything|all of (?:it|them))\b"
_NOT_AN_EXAMPLE = r"(?!.*\b(?:examples?|difference|pros and cons|overview|idea)\b)"

ORDERS: tuple[Order, ...] = (
    Order("command_line", r"\$", r"\s*\S"),
    Order(
        "make",
        "create|write|add|generate|make|implement|build|scaffold|set up|insert|append|put|save|touch|mkdir",
        rf"{_NOT_AN_EXAMPLE}.*(?:{_PATH}|{_PLACE}|{_CODE})",
    ),
    Order(
        "change",
        "edit|modify|change|update|fix|refactor|rewrite|patch|correct|repair|rename|move|copy|replace|convert|migrate|port|"
        "reformat|format|clean up|tidy|remove|delete|drop|erase|comment out|debug|resolve|optimi[sz]e|simplify|split|merge|revert|"
        "undo|translate|extract|inline|bump|upgrade|downgrade|apply|document|annotate",
        rf"(?:{_POINTED}|.*(?:{_PATH}|{_PLACE}|{_CODE}|{_FAULT}))",
    ),
    Order(
        "run",
        "run|execute|install|uninstall|compile|lint|rerun|re-run",
        r"(?!\W*(?:me|us|through|into|out|down)\b)\W*[\w`./]",
    ),
    Order(
        "operate",
        "test|build|start|launch|restart|stop|kill|deploy|benchmark|commit|push|pull|check out|checkout|clone|stage|rebase",
        rf"(?:{_POINTED}|.*(?:{_PATH}|{_PLACE}|{_CODE}|\b(?:app|application|server|service|container|image|project|changes|git)\b))",
    ),
    Order(
        "look",
        "read|open|show|show me|print|display|cat|view|list|ls|look at|look in|look into|look through|go through|inspect|check|"
        "examine|review|audit|analy[sz]e|summari[sz]e|count|diff|tail|head|verify|validate|parse|load",
        rf"{_NOT_AN_EXAMPLE}(?!\W*(?:how|why|what)\b).*(?:{_PATH}|{_PLACE}|\bgit (?:status|log|diff|blame|history)\b|\b(?:todos|contents)\b)",
    ),
    Order(
        "find",
        "find|search|grep|locate|look for|look up|figure out where|find out where",
        rf".*(?:{_PATH}|{_PLACE}|\b(?:usages?|occurrences?|references?|callers?|todos?|definitions?)\b"
        r"|\b(?:is|are|gets?) (?:defined|used|called|implemented|declared|set)\b)",
    ),
    Order(
        "german",
        "erstelle|erzeuge|schreibe?|lege|füge|ändere|bearbeite|lösche|entferne|benenne|verschiebe|behebe|korrigiere|repariere|lies|"
        "öffne|zeige?|liste|suche?|finde|führe|starte|installiere",
        rf".*(?:{_PATH}|\b(?:datei(?:en)?|ordner|verzeichnis|skripte?|tests?|projekt|funktion|klasse|repository|befehl)\b)",
    ),
    Order(
        "french",
        "crée|créez|écris|écrivez|ajoute|ajoutez|modifie|modifiez|supprime|supprimez|renomme|renommez|déplace|corrige|corrigez|répare|"
        "lis|lisez|ouvre|ouvrez|affiche|affichez|liste|cherche|cherchez|trouve|exécute|exécutez|lance|lancez|installe|installez",
        rf".*(?:{_PATH}|\b(?:fichiers?|dossiers?|répertoires?|scripts?|tests?|projet|fonction|classe|dépôt|commande)\b)",
    ),
    Order(
        "spanish",
        "crea|cree|escribe|escriba|añade|agrega|modifica|edita|cambia|borra|elimina|renombra|mueve|arregla|corrige|repara|lee|abre|"
        "muestra|lista|busca|encuentra|ejecuta|corre|lanza|instala",
        rf".*(?:{_PATH}|\b(?:archivos?|ficheros?|carpetas?|directorios?|scripts?|pruebas|tests?|proyecto|función|clase|repositorio|comando)\b)",
    ),
)

# Questions that nobody can answer without a look at the files.
_LOOKING_QUESTION = re.compile(
    rf"^(?:what(?:'s| is)(?: there)? in {_PATH}"
    rf"|what does (?:the file )?{_PATH} (?:contain|say)"
    r"|(?:what|which|how many)\b.*\b(?:files?|folders?|tests?|lines|todos?|dependencies)\b.*"
    r"\b(?:in|under|inside|of) (?:this|the|my|our) (?:current )?(?:folder|directory|repo|repository|project|codebase|workspace)"
    r"|where (?:is|are|do we|does)\b.*\b(?:defined?|used?|called?|implement(?:ed)?|declared?)\b)"
)
# Words in front of an order that change nothing about it.
_COURTESY = re.compile(
    r"^\W*(?:(?:please|kindly|hi|hello|hey|ok|okay|so|now|then|also|and|but|first|second|next|finally|lastly|just|simply|quickly|"
    r"bitte|und|dann|por favor|y|luego|s'il (?:te|vous) pla[iî]t|et|puis|"
    r"(?:can|could|would|will) (?:you|we)(?: please)?|i(?:'d| would) like you to|i (?:want|need) you to|you (?:should|must|need to)|"
    r"let's|let us|your (?:task|job) is to|go ahead and|help me(?: to)?|try to|make sure (?:to|you)|be sure to|"
    r"remember to|afterwards|after that|step \d+|task|todo|\d+[.)]|[-*])(?=\W|$)[\s,:!]*)+"
)
_WISH = re.compile(r"^(?:i|we) (?:need|want|have|would like|'d like) to |^i'd like to ")
_EXPLANATION = re.compile(
    r"^(?:explain|describe|define|discuss|elaborate|clarify|compare|suggest|recommend|brainstorm|outline|understand|"
    r"what|what's|why|how|when|who|where|which|whose|is|are|was|were|does|did|has|have|am|"
    r"do (?:you|i|we|they|people)|(?:can|could|should|may|must|would|might) (?:i|we|it|this|that|there|one)|"
    r"tell me|teach me|walk me|run me|show me (?:how|why|what|an example)|give me (?:an?|some|the) \w*\s*(?:overview|example|idea|explanation|"
    r"summary|comparison|hint)s?|i (?:wonder|don't understand|am wondering)|thanks|thank you|what if|is there|any idea)\b"
)
# The verb of such a sentence governs all that follows: `how do I create and delete the file`.
_GOVERNS = re.compile(
    r"\bhow (?:to|do|does|can|could|would|should|did)\b|\b(?:what happens|when|why|whether|if)\b"
    r"|^(?:is|are|does|did|do|can|could|should|may|would|might)\b"
)
_REQUEST = re.compile(r"(?:please|(?:can|could|would|will) you)\b")
_AFTERWARDS = re.compile(
    r"(?:[,;]\s*)?(?:\b(?:and|but)\s+)?\b(?:then|afterwards|after that|and also|and next)\b[,\s]*"
)
_CLAUSE = re.compile(
    r"[,;:]\s+|\s+(?:and|but|then|or|und|dann|et|puis|y|luego)\s+|\s+-{1,2}\s+|\s*→\s*"
)
_DEFINITE = re.compile(
    rf"{_PATH}|\b(?:it|them|this|that|these|those|the|my|our)\b"
)  # which file, not any file
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)

_PATTERNS = tuple(
    (order.id, re.compile(rf"(?:{order.verbs})(?=\W|$)(?:{order.things})", re.DOTALL))
    for order in ORDERS
)


def intent_of(task: str) -> Intent:
    text = _FENCED.sub(" ", unicodedata.normalize("NFC", task[:_LONGEST])).casefold()
    text = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    explained = ""
    for sentence in _SENTENCE.split(text):
        plain = _COURTESY.sub("", sentence.strip()[:_SENTENCE_LENGTH], count=1).strip()
        if not plain:
            continue
        found, is_explanation = _judged(plain)
        if found is not None:
            return found
        explained = explained or (plain if is_explanation else "")
    if explained:
        return Intent(is_order=False, rule="explanation", matched=explained[:_SHOWN])
    return Intent(is_order=False, rule="no_order")


def _judged(sentence: str) -> tuple[Intent | None, bool]:
    """The order in it, if there is one; and whether it asks for an explanation."""
    if _LOOKING_QUESTION.search(sentence):
        return Intent(is_order=True, rule="looking_question", matched=sentence[:_SHOWN]), False
    if not _EXPLANATION.search(sentence):
        wish = sentence if sentence.endswith("?") else _WISH.sub("", sentence, count=1)
        return _first_order(wish, definite=False), False
    first, *later = _AFTERWARDS.split(sentence)
    if _GOVERNS.search(first):
        # Only what is clearly a second request counts: `how does it work, then fix main.py`.
        rest = [] if sentence.endswith("?") else later
        return _any_order(rest), True
    clauses = _CLAUSE.split(first)[1:]
    if sentence.endswith(
        "?"
    ):  # `what do I need to install it and run it?` asks; `and could you fix it?` wants
        clauses = [clause for clause in clauses if _REQUEST.match(clause)]
    return _any_order(later) or _any_order(clauses, definite=True), True


def _any_order(texts: list[str], *, definite: bool = False) -> Intent | None:
    found = (_first_order(text, definite=definite) for text in texts)
    return next((intent for intent in found if intent is not None), None)


def _first_order(text: str, *, definite: bool) -> Intent | None:
    whole = _COURTESY.sub("", text, count=1).strip()
    for clause in (whole, *_CLAUSE.split(whole)):
        plain = _COURTESY.sub("", clause, count=1).strip(" \t\"'`*_")
        if _EXPLANATION.search(plain) or (definite and not _DEFINITE.search(plain)):
            continue
        for rule, pattern in _PATTERNS:
            if pattern.match(plain):
                return Intent(is_order=True, rule=rule, matched=plain[:_SHOWN])
    return None
