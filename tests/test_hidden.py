"""What waivers and baselines hide is shown as hidden, and hides no more than it says."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from mirage_gate import Location
from mirage_gate.agreed.waivers import Waiver, apply
from tests.command import invoke
from tests.emitter import qwen3
from tests.findings import finding

TODAY = date(2026, 1, 1)
HERE = Location("mirage-gate.toml", 1)
ROPE = ("cos_position_embedding", "sin_position_embedding")


def waiver(tensor: str, rule: str = "MG101") -> Waiver:
    return Waiver(rule, tensor, "next release", HERE)


def test_a_waiver_of_one_tensor_leaves_the_other() -> None:
    both = finding("a and b are lost", tensor="a", others=("b",))
    left, waived, stale = apply([both], [waiver("a")], TODAY)
    assert [one.tensors for one in left] == [("b",)]
    assert (waived, stale) == ([], [])
    left, waived, stale = apply([both], [waiver("b")], TODAY)
    assert [one.tensors for one in left] == [("a",)]
    assert (waived, stale) == ([], [])


def test_waivers_of_all_tensors_hide_a_finding_with_the_reason() -> None:
    both = finding("a and b are lost", tensor="a", others=("b",))
    left, (hidden,), stale = apply([both], [waiver("a"), waiver("b")], TODAY)
    assert (left, stale) == ([], [])
    assert hidden.hidden == "waived: next release"


def _waived(folder: Path) -> Path:
    qwen3(4).without_rope(layer=2).write(folder / "gen")
    config = folder / "mirage-gate.toml"
    config.write_text(
        "".join(
            f'[[waivers]]\nrule = "MG701"\ntensor = "{name}"\nreason = "on purpose"\n'
            for name in ROPE
        )
    )
    return config


def test_a_waived_hole_is_not_called_ok(tmp_path: Path) -> None:
    done = invoke("check", tmp_path / "gen", "--config", _waived(tmp_path))
    assert done.return_value == 0
    assert "[WAIVED] cos_position_embedding" in done.output
    assert "[OK] cos_position_embedding" not in done.output
    assert "1 waived" in done.output
    assert "hidden:" not in done.output


def test_what_is_hidden_can_be_listed_in_every_format(tmp_path: Path) -> None:
    config = _waived(tmp_path)
    outputs = [f"{name}={tmp_path / name}" for name in ("text", "json", "sarif")]
    more = [word for output in outputs for word in ("-o", output)]
    done = invoke("check", tmp_path / "gen", "--config", config, "--show-hidden", *more)
    assert done.return_value == 0, done.output
    assert "hidden: " in (tmp_path / "text").read_text()
    assert "(waived: on purpose)" in (tmp_path / "text").read_text()
    document = json.loads((tmp_path / "json").read_text())
    (hidden,) = document["hidden"]
    assert (hidden["rule"], hidden["why"]) == ("MG701", "waived: on purpose")
    assert sorted(hidden["tensors"]) == sorted(ROPE)
    assert document["verdict"]["waived"] == 1
    results = json.loads((tmp_path / "sarif").read_text())["runs"][0]["results"]
    (result,) = [one for one in results if one.get("suppressions")]
    assert result["suppressions"] == [{"kind": "external", "justification": "waived: on purpose"}]


def test_sarif_has_no_suppressed_result_by_itself(tmp_path: Path) -> None:
    """GitHub shows a suppressed result as it shows any other."""
    done = invoke("check", tmp_path / "gen", "--config", _waived(tmp_path), "-o", "sarif")
    assert "suppressions" not in done.output
    results = json.loads(done.output)["runs"][0]["results"]
    assert [one for one in results if one["ruleId"] == "MG701"] == []


def test_a_graph_that_fails_is_locked_by_force_alone(tmp_path: Path) -> None:
    qwen3(2).without_rope().write(tmp_path / "gen")
    refused = invoke("lock", tmp_path / "gen", "-o", tmp_path / "lock.json")
    said = str(refused.exception)
    assert "MG101" in said
    assert "--force" in said
    assert not (tmp_path / "lock.json").exists()
    forced = invoke("lock", tmp_path / "gen", "-o", tmp_path / "lock.json", "--force")
    assert forced.return_value == 0, forced.output
    assert (tmp_path / "lock.json").exists()
