"""Official files, in their format, with products made up here."""

import json

import pytest

from agent_env.bundles.webshop import official

ITEMS = [
    {
        "asin": "B00AAAAAA1",
        "name": "Acme Lamp",
        "category": "garden",
        "query": " Lamp ",
        "product_category": "Home › Light › Lamps",
        "full_description": "A lamp.",
        "small_description": ["dims", "folds"],
        "pricing": "$1,012.50",
        "customization_options": {
            "Color": [{"value": " Black/White ", "image": None}, {"value": "Red"}],
            "Size": None,
            "Watt": [{"value": "5W"}],
        },
        "images": ["x.jpg"],
    },
    {
        "asin": "B00AAAAAA2",
        "name": "Orbit Vase",
        "category": "garden",
        "query": "vase",
        "product_category": "Home › Vases",
        "full_description": None,
        "small_description": "round",
        "pricing": "$20.00$30.00",
        "customization_options": "",
    },
    {
        "asin": "B00AAAAAA3",
        "name": "No Price",
        "category": "x",
        "query": "x",
        "product_category": "X",
        "small_description": None,
        "pricing": "",
    },
    {"asin": "nan", "name": "", "category": "", "query": "", "product_category": ""},
    {"asin": "B00AAAAAA1", "name": "again", "category": "", "query": "", "product_category": ""},
]
ABOUT = {
    "B00AAAAAA1": {
        "attributes": ["easy to clean"],
        "instruction": "Find me easy to clean lamps",
        "instruction_attributes": ["easy to clean"],
    },
    "B00AAAAAA2": {"attributes": ["round"], "instruction": None, "instruction_attributes": None},
}
HUMAN = {
    "B00AAAAAA2": [
        {"instruction": "a round vase.", "instruction_attributes": ["round"], "instruction_options": ["tall"]},
        {"instruction": "none", "instruction_attributes": [], "instruction_options": []},
    ],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv(official.VARIABLE, raising=False)
    written = {"items_shuffle_1000": ITEMS, "items_ins_v2_1000": ABOUT, "items_human_ins": HUMAN}
    for name, content in written.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def goals(catalogue):
    return [goal for goals in catalogue.goals.values() for goal in goals]


def test_products(folder):
    lamp, vase, unpriced = official.read(folder).products
    assert (lamp.query, lamp.price, lamp.price_tag) == ("lamp", 1012.5, "$1012.5")
    assert lamp.options == {"color": ("black | white", "red"), "watt": ("5w",)}
    assert (lamp.bullets, lamp.attributes) == (("dims", "folds"), ("easy to clean",))
    assert vase.price_tag == "$20.0 to $30.0"
    assert 20 < vase.price < 30
    assert (vase.bullets, vase.description, vase.options) == (("round",), "", {})
    assert (unpriced.price, unpriced.price_tag, unpriced.attributes) == (100.0, "$100.0", ("DUMMY_ATTR",))


def test_goals_are_made_of_options(folder):
    found = sorted(goals(official.read(folder)), key=lambda goal: goal.instruction)
    assert [goal.instruction for goal in found] == [
        f"Find me easy to clean lamps with color: {color}, and watt: 5w" for color in ("black | white", "red")
    ]
    assert [goal.options for goal in found] == [("black | white", "5w"), ("red", "5w")]
    assert {goal.price_upper for goal in found} == {1_000_000.0}  # above 990 there is no cap


def test_or_written_by_people(folder, monkeypatch):
    monkeypatch.setenv(official.VARIABLE, "human")
    (goal,) = goals(official.read(folder))
    assert goal.instruction.startswith("a round vase, and price lower than ")
    assert (goal.attributes, goal.options, goal.name) == (("round",), ("tall",), "Orbit Vase")
    assert goal.price_upper in (30.0, 40.0, 50.0, 60.0)
    assert goals(official.read(folder)) == [goal]


def test_a_products_goals_are_all_in_one_split(folder):
    items = [{**ITEMS[0], "asin": f"B{number:09d}"} for number in range(50)]
    about = {item["asin"]: ABOUT["B00AAAAAA1"] for item in items}
    (folder / "items_shuffle_1000.json").write_text(json.dumps(items))
    (folder / "items_ins_v2_1000.json").write_text(json.dumps(about))
    found = official.read(folder).goals
    asins = {split: {goal.asin for goal in goals} for split, goals in found.items()}
    assert asins["train"].isdisjoint(asins["eval"])
    assert len(asins["train"] | asins["eval"]) == 50
    assert 2 <= len(asins["eval"]) <= 20
    assert sum(map(len, found.values())) == 100


def test_all_products_are_read_where_they_are(folder):
    (folder / "items_shuffle.json").write_text(json.dumps(ITEMS[1:2]))
    (folder / "items_ins_v2.json").write_text("{}")
    assert [product.name for product in official.read(folder).products] == ["Orbit Vase"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "items_ins_v2_1000.json",
            None,
            "items_ins_v2_1000.json cannot be read: No such file or directory; WebShop's setup",
        ),
        ("items_shuffle_1000.json", "[", "items_shuffle_1000.json is none of WebShop's: Input data was truncated"),
        ("items_shuffle_1000.json", '[{"asin": 3}]', r"Expected `str`, got `int` - at `\$\[0\].asin`"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(folder, file, text, said):
    (folder / file).unlink() if text is None else (folder / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        official.read(folder)


def test_another_kind_of_goal(folder, monkeypatch):
    monkeypatch.setenv(official.VARIABLE, "robot")
    with pytest.raises(ValueError, match="WEBSHOP_GOALS: expected human or synthetic, got 'robot'"):
        official.read(folder)
