"""Checks the transcript of an agent run with plain Python and nothing else: python verifier.py RUN_FOLDER_OR_ZIP."""

# ruff: noqa: T201 - this file is a program of its own: it prints, and it shares no code with what it checks
from __future__ import annotations

import argparse
import functools
import hashlib
import json
import math
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

__all__ = ["canonical", "head_of", "main", "signature_is_good", "verify"]

WAYS = {
    "PRECHECK": {"INFER", "COMMIT"},
    "INFER": {"VALIDATE_CALLS", "COMMIT"},
    "VALIDATE_CALLS": {"EXECUTE", "COMMIT"},
    "EXECUTE": {"EXECUTE", "OBSERVE"},
    "OBSERVE": {"OBSERVE", "COMMIT"},
    "COMMIT": {"INFER", "TERMINATE"},
}
DOMAIN, CHECKPOINT = "monoize-transcript/1\n", "monoize-checkpoint/1\n"
PAYLOADS = ("action_hash", "result_hash", "meta_hash")
HASHED = (
    *("v", "seq", "step_id", "from", "to", "contract_hash", "action_hash", "result_hash"),
    *("adapter_version", "model_profile_id", "model_fingerprint", "meta_hash"),
)
ENTRY = {*HASHED, "run_id", "prev", "head", "observed"}
SEAL = {"v", "checkpoint", "size", "head", "public_key", "signature"}
SHAPES: dict[str, type] = {
    "v": int,
    "seq": int,
    "size": int,
    "checkpoint": bool,
    "observed": dict,
}  # else: text
HEX = {"public_key": 64, "signature": 128, **dict.fromkeys(("contract_hash", "prev", "head", *PAYLOADS), 64)}  # fmt: skip
EVERY, MAX_LINE, MAX_FAULTS, CHUNK = 64, 2**20, 100, 2**20
EMPTY = hashlib.sha256(b"").hexdigest()
Place = Path | zipfile.Path


def canonical(value: Any) -> str:
    """RFC 8785."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float) and value:
        sign, digits, exponent = Decimal(repr(value)).as_tuple()
        figures, point = "".join(map(str, digits)).rstrip("0"), len(digits) + int(exponent)
        if len(figures) <= point <= 21:  # noqa: PLR2004 - as ECMAScript writes numbers
            text = figures.ljust(point, "0")
        elif 0 < point <= 21:  # noqa: PLR2004
            text = f"{figures[:point]}.{figures[point:]}"
        elif -6 < point <= 0:  # noqa: PLR2004
            text = "0." + "0" * -point + figures
        else:
            text = f"{figures[0]}{'.' if figures[1:] else ''}{figures[1:]}e{point - 1:+d}"
        return "-" * sign + text
    if isinstance(value, int) and abs(value) >= 2**53:
        raise ValueError("an integer beyond 2^53-1")
    return json.dumps(0 if value == 0 and isinstance(value, float) else value, ensure_ascii=False)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def is_hex(value: Any, length: int | None) -> bool:
    return length is None or (len(value) == length and not value.strip("0123456789abcdef"))


def head_of(entry: dict[str, Any]) -> str:
    return sha256(f"{DOMAIN}{entry['prev']}\n{canonical([entry[name] for name in HASHED])}")


def read_json(raw: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a field stands twice")
        return dict(pairs)

    def plain(text: str) -> int:
        if text == "-0":
            raise ValueError("-0 is not how an integer is written here")
        return int(text)

    def finite(text: str) -> float:
        if not math.isfinite(float(text)):
            raise ValueError(f"{text} is no finite number")
        return float(text)

    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=once,
            parse_int=plain,
            parse_float=finite,
            parse_constant=finite,
        )
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - of the text, not of an argument
    return value


# --- Ed25519 (RFC 8032, 5.1.7), points as (X, Y, Z, T) --------------------------------------------

P, Q = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D, ROOT = -121665 * pow(121666, -1, P) % P, pow(2, (P - 1) // 4, P)
Point = tuple[int, int, int, int]


def _sum(a: Point, b: Point) -> Point:
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    return (f - e) * (h - g) % P, (h + g) * (f + e) % P, (h - g) * (h + g) % P, (f - e) * (f + e) % P  # fmt: skip


def _times(number: int, point: Point) -> Point:
    result = (0, 1, 1, 0)
    for bit in f"{number:b}":
        result = _sum(result, result)
        result = _sum(result, point) if bit == "1" else result
    return result


def _point(data: bytes) -> Point | None:
    sign, y = data[31] >> 7, int.from_bytes(data, "little") & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * ROOT % P
    if y >= P or x * x % P != square or (x == 0 and sign):
        return None
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P


@functools.lru_cache(maxsize=4096)
def signature_is_good(public_key: bytes, message: bytes, signature: bytes) -> bool:
    key, base = _point(public_key), _point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or base is None or scalar >= Q:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    minus = (P - key[0], key[1], 1, P - key[3])
    x, y, z, _ = _sum(_times(scalar, base), _times(int.from_bytes(digest, "little") % Q, minus))
    x, y = x * pow(z, -1, P) % P, y * pow(z, -1, P) % P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]


# --- the checks -----------------------------------------------------------------------------------


class Check:
    """One pass over a run; a fault is said where it is found, and the next line is judged by this one."""

    def __init__(self, place: Place, key: str | None, unfinished: bool) -> None:
        self.place, self.key, self.pinned, self.unfinished = place, key, key is not None, unfinished
        self.faults: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.count, self.sealed = 0, 0
        self.last: dict[str, Any] = {}
        self.used: dict[str, int] = {}  # payload -> the first line that names it

    def fault(self, text: str, line: int | None = None) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append({"line": line, "fault": text})

    def run(self) -> None:
        digest = self.contract()
        self.transcript(digest)
        if not self.count:
            self.fault("the transcript has no entry")
        elif self.sealed == self.count and self.last["to"] == "TERMINATE":
            pass
        elif self.unfinished:
            self.notes.append(
                f"not closed: a cut behind the {self.sealed} sealed entries would go unseen"
            )
        else:
            self.fault(
                "no closing checkpoint: the run has not ended, or its end was cut off", self.count
            )
        self.payloads()
        if self.key and not self.pinned:
            self.notes.append(
                f"signed by {self.key}; only --public-key makes sure whose key that is"
            )

    def contract(self) -> str | None:
        try:
            fields = read_json((self.place / "contract.json").read_bytes())
            said = {name: fields.pop(name, None) for name in ("contract_id", "contract_hash")}
            digest = sha256(canonical(fields))
        except FileNotFoundError:
            self.fault("contract.json is not there")
            return None
        except (ValueError, KeyError) as mistake:
            self.fault(f"contract.json: {mistake}")
            return None
        if said != {"contract_id": f"ctr_{digest[:24]}", "contract_hash": digest}:
            self.fault("contract.json is not what its own id and hash name")
        if isinstance(fields.get("logits_mask"), str):
            self.used[fields["logits_mask"]] = 0
        self.manifest(fields.get("tool_manifest_hash"))
        return digest

    def manifest(self, digest: Any) -> None:
        try:
            fields = read_json((self.place / "manifest.json").read_bytes())
            if set(fields) != {"tools"} or sha256(canonical(fields["tools"])) != digest:
                self.fault("manifest.json is not the one that the contract names")
        except (FileNotFoundError, KeyError):
            self.notes.append("manifest.json is not there")
        except ValueError as mistake:
            self.fault(f"manifest.json: {mistake}")

    def transcript(self, digest: str | None) -> None:
        with (self.place / "transcript.jsonl").open("rb") as stream:
            number = 0
            while raw := stream.readline(MAX_LINE + 1):
                number += 1
                if not raw.endswith(b"\n"):
                    self.fault("the line is torn: it has no end", number)
                    if len(raw) > MAX_LINE:
                        return
                try:
                    self.line(number, read_json(raw), digest)
                except ValueError as mistake:
                    self.fault(str(mistake), number)

    def line(self, number: int, fields: dict[str, Any], digest: str | None) -> None:
        is_seal = "checkpoint" in fields
        odd = set(fields) ^ (SEAL if is_seal else ENTRY)
        if odd:
            raise ValueError(f"an unknown or missing field: {', '.join(sorted(odd))}")
        for name, value in fields.items():
            if type(value) is not SHAPES.get(name, str) or not is_hex(value, HEX.get(name)):
                raise ValueError(f"{name} is not of its form")
        if fields["v"] != 1:
            raise ValueError(f"format {fields['v']} is unknown")
        (self.seal if is_seal else self.entry)(number, fields, digest)

    def entry(self, number: int, entry: dict[str, Any], digest: str | None) -> None:
        last = self.last or {
            "seq": -1,
            "to": "PRECHECK",
            "run_id": entry["run_id"],
            "contract_hash": digest or entry["contract_hash"],
            "head": sha256(DOMAIN + entry["contract_hash"]),
        }
        if entry["seq"] != last["seq"] + 1:
            self.fault(f"seq is {entry['seq']} where {last['seq'] + 1} is due", number)
        for name in ("run_id", "contract_hash"):
            if entry[name] != last[name]:
                self.fault(f"{name} is not that of the run", number)
        if entry["from"] != last["to"] or entry["to"] not in WAYS.get(entry["from"], ()):
            self.fault(
                f"no way leads from {last['to']} by {entry['from']} to {entry['to']}", number
            )
        if entry["prev"] != last["head"]:
            self.fault("prev is not the head of the entry before", number)
        if entry["head"] != head_of(entry):
            self.fault("the content does not give the head", number)
        if self.count and self.count % EVERY == 0 and self.sealed != self.count:
            self.fault(f"no checkpoint stands before entry {self.count}", number)
        self.last, self.count = entry, self.count + 1
        for name in PAYLOADS:
            self.used.setdefault(entry[name], number)

    def seal(self, number: int, seal: dict[str, Any], _digest: str | None) -> None:
        if not self.last:
            raise ValueError("a checkpoint of nothing")
        if not seal["checkpoint"]:
            raise ValueError("a checkpoint that says it is none")
        if self.sealed == self.count:
            self.fault("the checkpoint stands twice", number)
        if seal["size"] != self.count or seal["head"] != self.last["head"]:
            self.fault(
                f"the checkpoint is of {seal['size']} entries, before it stand {self.count}"
                if seal["size"] != self.count
                else "the checkpoint is of another head",
                number,
            )
        self.key, self.sealed = self.key or seal["public_key"], self.count
        text = f"{CHECKPOINT}{self.last['run_id']}\n{seal['size']}\n{seal['head']}".encode()
        if seal["public_key"] != self.key:
            self.fault("the checkpoint is signed by another key", number)
        elif not signature_is_good(bytes.fromhex(self.key), text, bytes.fromhex(seal["signature"])):
            self.fault("the signature of the checkpoint is wrong", number)

    def payloads(self) -> None:
        there, folder = {EMPTY}, self.place / "payloads"
        for file in folder.iterdir() if folder.is_dir() else ():
            if file.name.startswith("."):
                continue  # a write that a crash cut off
            digest = hashlib.sha256()
            with file.open("rb") as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
            there.add(file.name)
            if digest.hexdigest() != file.name:
                where = self.used.get(file.name)
                self.fault(f"payloads/{file.name} is not what its name says", where)
        for name in self.used.keys() - there:
            self.notes.append(f"erased: payloads/{name} of line {self.used[name]}")


def verify(place: Path, public_key: str | None = None, unfinished: bool = False) -> dict[str, Any]:
    """Raises OSError or zipfile.BadZipFile where there is nothing to read."""
    check = Check(place, public_key, unfinished)
    if zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            if len(set(archive.namelist())) < len(archive.namelist()):
                check.fault("a file stands twice in the archive")
            check.place = zipfile.Path(archive)
            check.run()
    else:
        check.run()
    return {
        "ok": not check.faults,
        "run_id": check.last.get("run_id"),
        "entries": check.count,
        "head": check.last.get("head"),
        "public_key": check.key,
        "faults": sorted(check.faults, key=lambda fault: fault["line"] or 0),
        "notes": sorted(check.notes),
    }


def main(argv: list[str] | None = None) -> int:
    """Returns 0: whole; 1: faults; 2: there is nothing to check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a run, or its export (.zip)")
    parser.add_argument("--public-key", help="64 hex digits; a checkpoint by any other key is a fault")  # fmt: skip
    parser.add_argument("--unfinished", action="store_true", help="the run may still be going on")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    options = parser.parse_args(argv)
    if options.public_key and not is_hex(options.public_key, 64):
        parser.error("--public-key takes 64 lower-case hex digits")
    try:
        report = verify(options.run, options.public_key, options.unfinished)
    except (OSError, KeyError, zipfile.BadZipFile) as mistake:
        print(f"{options.run} cannot be read: {mistake}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(report, indent=2))
        return 0 if report["ok"] else 1
    for fault in report["faults"]:
        print(f"line {fault['line']}: {fault['fault']}" if fault["line"] else fault["fault"])
    for note in report["notes"]:
        print(f"note: {note}")
    print(f"{'whole' if report['ok'] else 'NOT WHOLE'}: run {report['run_id']}, {report['entries']} entries, head {report['head']}")  # fmt: skip
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
