"""Makes mini-worlds in AppWorld's own format: ``python making.py FOLDER``, by the Python of AppWorld's venv.

FOLDER then holds what its ``data`` folder does: documentation of the apps' APIs, a base of people, songs and products,
and tasks, each with its changes to the base, its evaluation and, in ``steps.json``, the code that does it. All of it is
made by the apps' own models and APIs; a task follows from its name.
"""

from __future__ import annotations

import json
import os
import random
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from kinds import GENRES, PRODUCTS, SEEN, UNSEEN, Mini, Stage

NOW = datetime(2023, 5, 18, 12, 0)
SPLITS = {"train": (SEEN, 1, 6), "test_normal": (SEEN, 7, 3), "test_challenge": (UNSEEN, 1, 6)}
"""AppWorld's names of them: kinds, number of the first task of each, and tasks of each."""
NAMES = (
    *("Ada Abbott", "Bruno Berg", "Carla Castro", "Dmitri Dahl", "Elif Egger", "Farid Fischer", "Greta Garcia"),
    *("Hugo Hansen", "Ines Ito", "Jonas Jansen", "Kira Klein", "Liam Lopez", "Mona Moreau", "Nils Novak"),
    *("Olga Ortiz", "Pavel Park"),
)
USED = ("amazon", "file_system", "phone", "simple_note", "splitwise", "spotify", "todoist", "venmo")
WORDS = (
    *("Amber", "Basalt", "Cedar", "Delta", "Ember", "Fjord", "Glacier", "Harbor", "Island", "Juniper", "Kestrel"),
    *("Lagoon", "Meadow", "Nebula", "Orchard"),
)


def people() -> list[dict[str, Any]]:
    """Sixteen persons, made up."""
    found = []
    for number, (first, last) in enumerate(name.split() for name in NAMES):
        found.append(
            {
                "first_name": first,
                "last_name": last,
                "email": f"{first}.{last}@mail.com".lower(),
                "phone_number": str(5550100200 + 137 * number),
                "password": f"{last.lower()}-{1000 + 77 * number}",
                "birthday": f"19{70 + number}-0{1 + number % 9}-1{number % 10}",
                "sex": "female" if number % 2 == 0 else "male",
            }
        )
    return found


def make_base(folder: Path, apps: list[str]) -> None:
    """Write ``base_dbs``: accounts of everyone in every app that is used, songs and products."""
    from appworld.collections.models import ModelCollection

    rng = random.Random("base")
    models = ModelCollection.load(to_db_home_path=":memory:base", load_apps=[*apps, "admin"], create_db=True)
    for person in people():
        about = {key: person[key] for key in ("first_name", "last_name", "email", "phone_number", "birthday", "sex")}
        models.admin.MainUser(**about).save()
        for app in USED:
            key = "phone_number" if app == "phone" else "email"
            account = {name: person[name] for name in ("first_name", "last_name", "password", key)}
            if app != "phone":
                account["verified"] = True
            if app == "venmo":
                account["venmo_balance"] = 2000.0
            user = models[app].User(**account)
            user.save()
            if app == "file_system":
                for name in ("", "downloads/", "documents/"):
                    path = f"{user.home_directory_path}{name}"
                    models.file_system.Directory(path=path, user_id=user.id).save()
    make_songs(models, rng)
    make_products(models, rng)
    models.save(db_home_path=str(folder / "base_dbs"), format="full", app_names=[*apps, "admin"])
    models.close()


def make_songs(models: Any, rng: random.Random) -> None:
    """Thirty songs of five artists, no two of the same duration."""
    artists = []
    for name in ("The Tides", "Mara Voss", "Copper Line", "Night Ferry", "Orla and Sons"):
        artist = models.spotify.Artist(name=name, genre=rng.choice(GENRES))
        artist.save()
        artists.append(artist.id)
    durations = rng.sample(range(120, 420), 30)
    for number, duration in enumerate(durations):
        title = f"{WORDS[number % 15]} {('Song', 'Dance')[number // 15]}"
        models.spotify.Song(
            title=title,
            artist_ids=[rng.choice(artists)],
            duration=duration,
            release_date=datetime(2010 + number % 12, 1 + number % 12, 5),
            genre=GENRES[number % len(GENRES)],
        ).save()


def make_products(models: Any, rng: random.Random) -> None:
    """Eight products of each kind, no two of the same price."""
    seller = models.amazon.Seller(name="Harbor Goods", rating=4.0)
    seller.save()
    for kind in PRODUCTS:
        prices = rng.sample(range(12, 90), 8)
        for number, price in enumerate(prices):
            models.amazon.Product(
                product_type=kind,
                name=f"{WORDS[number]} {kind}",
                description=f"A {kind}.",
                seller_id=seller.id,
                price=float(price),
                delivery_days=3,
                inventory_quantity=20,
                weight=1.0,
                length=5.0,
                width=5.0,
                height=5.0,
                rating=(4.5, 1.5, 3.5, 2.5)[number % 4],
                seller_rating=4.0,
            ).save()


def make_docs(folder: Path, apps: list[str]) -> None:
    """Write ``api_docs/standard``, an app a file."""
    from appworld.collections.api_docs import ApiDocCollection

    docs = ApiDocCollection.build(load_apps=tuple(apps))
    place = folder / "api_docs" / "standard"
    place.mkdir(parents=True)
    for app in apps:
        found = {name: {**doc, "canary_string": ""} for name, doc in docs[app].items()}
        (place / f"{app}.json").write_text(json.dumps(found, default=str), encoding="utf-8")


def make_task(folder: Path, apps: list[str], name: str, kind: Any, supervisor: int) -> None:
    """Write ``tasks/NAME``."""
    from appworld.collections.apis import ApiCollection
    from appworld.collections.models import ModelCollection

    everyone = people()
    me = everyone.pop(supervisor)
    place, memory = folder / "tasks" / name, f":memory:task_input-{name}"
    (place / "ground_truth").mkdir(parents=True)
    models = ModelCollection.load(
        to_db_home_path=memory, from_db_home_path=str(folder / "base_dbs"), load_apps=[*apps, "admin"]
    )
    apis, _ = ApiCollection.load(
        to_db_home_path=memory, from_db_home_path=memory, date_and_time=NOW, load_apps=apps, max_num_requests=10_000
    )
    mini: Mini = kind(Stage(apis, [me, *everyone], random.Random(name)))
    about = {key: me[key] for key in ("first_name", "last_name", "email", "phone_number")}
    boss = models.supervisor.Supervisor(**about, birthday=me["birthday"], sex=me["sex"])
    boss.save()
    models.supervisor.Task(supervisor_id=boss.id, instruction=mini.instruction).save()
    for app in USED:
        models.supervisor.AccountPassword(supervisor_id=boss.id, account_name=app, password=me["password"]).save()
    models.save(db_home_path=str(place / "dbs"), format="changes", app_names=[*apps, "admin"])
    apis.close()
    models.close()
    specs = {
        "instruction": mini.instruction,
        "supervisor": about,
        "datetime": NOW.isoformat(),
        "db_version": _db_version(),
    }
    _write(place / "specs.json", specs)
    truth = place / "ground_truth"
    _write(truth / "public_data.json", mini.public)
    _write(truth / "private_data.json", {})
    _write(truth / "answer.json", mini.answer)
    _write(truth / "test_data.json", [{"requirement": what, "label": label} for what, label in mini.tests])
    called = {part.split("(")[0] for block in mini.solution for part in block.split("apis.")[1:]}
    facts = {
        "difficulty": 1,
        "mode": "minimal",
        "num_apps": len({one.split(".")[0] for one in called} - {"supervisor"}),
    }
    facts |= {"num_apis": len(called), "num_api_calls": len(called), "num_solution_code_lines": len(mini.solution)}
    _write(truth / "metadata.json", facts)
    arguments = "test, public_data, private_data, main_user, models, ground_truth_answer"
    (truth / "evaluation.py").write_text(f"def evaluate({arguments}):\n{mini.evaluation}", encoding="utf-8")
    _write(truth / "steps.json", mini.solution)


def _db_version() -> str:
    from appworld.common.constants import DB_VERSION

    return str(DB_VERSION)


def _write(file: Path, what: Any) -> None:
    file.write_text(json.dumps(what, indent=1), encoding="utf-8")


def main(folder: Path) -> None:
    """Make everything."""
    root = folder.parent / f"{folder.name}.root"
    root.mkdir()
    (root / "data").symlink_to(folder)
    folder.mkdir()
    os.environ["APPWORLD_ROOT"] = str(root)
    from appworld.apps import get_all_apps
    from appworld.apps.api_lib import set_local_date_and_time, unset_local_date_and_time

    apps = get_all_apps(skip_admin=True)
    make_docs(folder, apps)
    frozen = set_local_date_and_time(NOW)
    make_base(folder, apps)
    unset_local_date_and_time(frozen)
    (folder / "datasets").mkdir()
    for split, (kinds, first, count) in SPLITS.items():
        names = []
        for kind in kinds:
            for number in range(first, first + count):
                name = f"{kind.__name__}_{number}"
                # Who is a supervisor in training is none in a test.
                low, high = (0, 10) if split == "train" else (10, 16)
                make_task(folder, apps, name, kind, random.Random(f"who {name}").randrange(low, high))
                names.append(name)
        (folder / "datasets" / f"{split}.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        sys.stderr.write(f"appworld: made {len(names)} tasks of {split}\n")
    (root / "data").unlink()
    root.rmdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
