"""Countries as passages."""

import json

from agent_env.bundles.search.factbook import countries
from agent_env.bundles.search.passages import Passage


def written(folder, name, **sections):
    entry = {"Government": {"Country name": {"conventional short form": {"text": name}}}}
    for section, lines in sections.items():
        entry.setdefault(section, {}).update(lines)
    file = folder / "world" / f"{len(list(folder.rglob('*.json')))}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(entry))


def test_a_passage_a_section(tmp_path):
    geography = {
        "Location": {"text": "<strong>here</strong>,  not&nbsp;there"},
        "Elevation": {"highest point": {"text": "Mont Blanc 4,810 m"}},
        "Climate": {"text": "word " * 50},
        "Coastline": {"text": ""},
    }
    written(tmp_path, "C&ocirc;te d'Ivoire", Geography=geography, Economy={"Exchange rates": {"Currency": "none"}})
    assert countries(tmp_path) == {
        "Côte d'Ivoire": [
            Passage(
                "Côte d'Ivoire: Geography",
                "Location: here , not there\nClimate: "
                + ("word " * 40).strip()
                + " ...\nHighest point: Mont Blanc 4,810 m",
            )
        ]
    }


def test_names(tmp_path):
    for name in ("The Gambia", "Congo (Brazzaville)", "Gaza, Gaza Strip", "none", "The Dominican", "Mali", "Mali"):
        written(tmp_path, name, Geography={"Location": {"text": "somewhere"}})
    (tmp_path / "world" / "nameless.json").write_text(json.dumps({"Geography": {}}))
    assert list(countries(tmp_path)) == ["Gambia", "Congo", "Gaza", "Mali"]
