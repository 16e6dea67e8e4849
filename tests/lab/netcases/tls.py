"""Cases of R2CC_TLS=1: faults with all of it encrypted, ranks that differ, and a host without OpenSSL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from netcases.mixed import PLUGIN, failed, said, start
from netcases.network import MOVED_MS, UDP
from netcases.play import Case, Outcome, Stage, made, outcome
from netcases.process import exit_middle

ON = {"R2CC_TLS": "1"}
SECRET_BYTES = 64
Env = Mapping[str, str]


def secret(stage: Stage, text: str) -> Env:
    """Settings with a file of that content."""
    path = stage.folder / f"secret-{text}"
    path.write_text(text * SECRET_BYTES)
    path.chmod(0o600)
    return {**ON, "R2CC_TLS_SECRET_FILE": str(path)}


def without_openssl(stage: Stage) -> Env:
    """The loader finds an empty file in place of the library."""
    folder = stage.folder / "empty"
    folder.mkdir(exist_ok=True)
    (folder / "libssl.so.3").touch()
    return {**ON, "LD_LIBRARY_PATH": str(folder)}


def cut(stage: Stage, *, with_secret: bool = False, udp: bool = True) -> Outcome:
    """The only NIC in use loses its cable, and has it back; with or without UDP."""
    with made() as bed:
        if not udp:
            bed.lose(UDP)
        env = secret(stage, "s") if with_secret else ON
        pair = stage.pair(bed, "--seconds", 3, "--vary", env=env)
        if pair.connected():
            pair.at(0.5, lambda: bed.cut("eth0"))
            pair.at(1.5, lambda: bed.plug("eth0"))
        both = pair.end()
    quiet = ["it does not say what is encrypted"] if stage.ours and "R2CC_TLS=1: encrypted are" not in both.log else []
    return outcome(both, both.within(MOVED_MS) + quiet)


def differ(stage: Stage, envs: tuple[Env, Env], line: str) -> Outcome:
    """Both ends fail before any data moves, with that line once each."""
    with made() as bed:
        both = start(stage, bed, doors=(PLUGIN, PLUGIN), envs=envs if stage.ours else None).end()
    if not stage.ours:
        return outcome(both, both.exact())
    problems = failed(both, "connect", "accept") + said(both, line, (1, 1))
    moved = [f"{end.last['done']} messages came" for end in both.ends if end.last["done"]]
    return outcome(both, problems + moved)


def secrets_differ(stage: Stage) -> Outcome:
    return differ(stage, (secret(stage, "a"), secret(stage, "b")), "to files that differ")


def no_openssl(stage: Stage) -> Outcome:
    """Neither end connects, and each says what to do. Stock would go on in the clear."""
    env = without_openssl(stage)
    with made() as bed:
        both = start(stage, bed, envs=(env, env) if stage.ours else None).end()
    if not stage.ours:
        return outcome(both, both.exact())
    line = "R2CC_TLS=1 needs OpenSSL 3"
    problems = [f"{end.seen()}, not an error" for end in both.ends if end.exit_code == 0]
    problems += [f"{line!r} is not said once" for end in both.ends if end.log.count(line) != 1]
    return outcome(both, problems)


CASES = [
    Case(
        "tls-cut",
        "R2CC_TLS=1; NIC 0 is cut and comes back",
        "moved within 1 s, exact",
        cut,
        modes=(1, 2),
    ),
    Case(
        "tls-cut-tcp",
        "R2CC_TLS=1 and a secret file, UDP is lost from the start; NIC 0 is cut and comes back",
        "moved within 1 s, exact",
        partial(cut, with_secret=True, udp=False),
    ),
    *(
        Case(
            f"tls-exit-{who}",
            f"R2CC_TLS=1; the {who} exits in the middle, with a thread that tests",
            "its own exit code",
            partial(exit_middle, who=who, env=ON),
        )
        for who in ("sender", "receiver")
    ),
    Case(
        "mixed-tls-send",
        "R2CC_TLS=1 sends to a rank without it",
        "both ends fail, one clear line each",
        partial(differ, envs=(ON, {}), line="R2CC_TLS is 1 on "),
    ),
    Case(
        "mixed-tls-recv",
        "R2CC sends to a rank with R2CC_TLS=1",
        "both ends fail, one clear line each",
        partial(differ, envs=({}, ON), line="R2CC_TLS is 0 on "),
    ),
    Case(
        "mixed-tls-secrets",
        "two ranks with R2CC_TLS_SECRET_FILE, and files that differ",
        "both ends fail, one clear line each",
        secrets_differ,
    ),
    Case(
        "tls-no-openssl",
        "R2CC_TLS=1 on hosts without OpenSSL",
        "nothing is connected, and each end says what to do",
        no_openssl,
    ),
]
