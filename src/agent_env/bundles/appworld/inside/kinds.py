"""Twelve kinds of tasks: what is in the apps before, what is asked for, what is right, and code that does it.

Each is a function of a `Stage`, on which it sets the scene by the apps' own APIs, as their users would.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TITLES = ("Trip to the lake", "Move to the new flat", "Garden", "Summer party", "Book club", "Winter repairs")
LINES = (
    "buy batteries",
    "call the plumber",
    "return the ladder",
    "pay the deposit",
    "book the train",
    "water the figs",
)
TAGS = ("recipes", "travel", "work", "health", "ideas")
RELATIONSHIPS = ("roommate", "manager", "sister", "coworker", "neighbor")
FOR = ("groceries", "the concert", "the taxi", "dinner", "the electricity")
MESSAGES = (
    "I will be late today.",
    "The keys are under the mat.",
    "Happy birthday!",
    "The meeting is moved to Friday.",
    "Can you call me tonight?",
)
GENRES = ("jazz", "rock", "folk", "techno")
EXTENSIONS = ("tmp", "log", "bak")
FILES = ("report", "photo", "invoice", "letter", "budget", "draft", "plan", "list", "scan", "backup")
ALARMS = ("Gym", "Medicine", "School run", "Yoga", "Dog walk")
GROUPS = ("Ski weekend", "Flat 12", "Boat trip", "Band room")
PRODUCTS = ("kettle", "lamp", "backpack", "keyboard")

LOGIN = """\
passwords = {{one["account_name"]: one["password"] for one in apis.supervisor.show_account_passwords()}}
me = apis.supervisor.show_profile()
token = apis.{app}.login(username=me["{by}"], password=passwords["{app}"])["access_token"]
print(sorted(passwords))"""
ALL_PAGES = """\
def every(api, **arguments):
    rows, page = [], 0
    while more := api(page_index=page, page_limit=20, **arguments):
        rows, page = rows + more, page + 1
    return rows
"""
DONE = "apis.supervisor.complete_task()"
ANSWERED = """\
    with test("the answer is right"):
        test.answer(models.end.supervisor.Task.all()[0].answer, ground_truth_answer)
    with test("nothing was changed"):
        test.case(models.changed_model_names(), "==", set())
"""
ANSWER_TESTS = (("the answer is right", "no_op_fail"), ("nothing was changed", "no_op_pass"))
NOTHING_ELSE = """\
    with test("nothing else was changed"):
        test.case(models.changed_model_names() - set(public_data.changes), "==", set())
"""


@dataclass(frozen=True)
class Mini:
    """A task.

    Args:
        instruction: what is asked for.
        evaluation: the body of AppWorld's ``evaluate(test, public_data, private_data, main_user, models,
            ground_truth_answer)``.
        tests: each requirement of it, and whether doing nothing meets it (``no_op_pass``, ``no_op_fail``).
        solution: code that does it, a block a step.
        answer: what is right, if it is a question.
        public: the evaluation's data. ``changes`` names the models that may change.
    """

    instruction: str
    evaluation: str
    tests: tuple[tuple[str, str], ...]
    solution: tuple[str, ...]
    answer: Any = None
    public: dict[str, Any] = field(default_factory=dict)


class Stage:
    """A world in which a scene is set.

    Args:
        apis: of all apps; they take ``_system_datetime``, too.
        people: every person, the supervisor first.
        rng: where all that is drawn comes from.
    """

    def __init__(self, apis: Any, people: list[dict[str, Any]], rng: random.Random) -> None:
        self.apis, self.rng = apis, rng
        self.me, *self.others = people
        self._tokens: dict[tuple[str, str], str] = {}

    def call(self, app: str, api: str, who: Any = None, /, **arguments: Any) -> Any:
        """Call an API as a person, by default the supervisor."""
        person = who or self.me
        key = (app, person["email"])
        if key not in self._tokens:
            name = person["phone_number"] if app == "phone" else person["email"]
            answer = self.apis[app].login(username=name, password=person["password"])
            self._tokens[key] = answer["access_token"]
        return self.apis[app][api](access_token=self._tokens[key], **arguments)

    def meet(self, relationships: list[str]) -> list[dict[str, Any]]:
        """Put people among the supervisor's contacts, one a relationship."""
        met = self.rng.sample(self.others, len(relationships))
        for person, relationship in zip(met, relationships, strict=True):
            about = {key: person[key] for key in ("first_name", "last_name", "email", "phone_number")}
            self.call("phone", "add_contact", relationships=[relationship], **about)
        return met


def name_of(person: dict[str, Any]) -> str:
    """First and last name."""
    return f"{person['first_name']} {person['last_name']}"


def login(app: str) -> str:
    """Code that logs in to an app."""
    return LOGIN.format(app=app, by="phone_number" if app == "phone" else "email")


def notetag(stage: Stage) -> Mini:
    """How many notes have a tag."""
    tag, rng, count = stage.rng.choice(TAGS), stage.rng, 0
    for number in range(rng.randint(6, 12)):
        tags = rng.sample(TAGS, rng.randint(0, 2))
        count += tag in tags
        stage.call("simple_note", "create_note", title=f"Note {number + 1}", content=rng.choice(LINES), tags=tags)
    code = f"{ALL_PAGES}notes = every(apis.simple_note.search_notes, access_token=token)\nprint(notes)"
    count_code = f'count = len([note for note in notes if "{tag}" in note["tags"]])\nprint(count)'
    return Mini(
        f"How many of my notes in SimpleNote have the tag '{tag}'?",
        ANSWERED,
        ANSWER_TESTS,
        (login("simple_note"), code, count_code, "apis.supervisor.complete_task(answer=count)"),
        answer=count,
    )


def noteline(stage: Stage) -> Mini:
    """Add a line to the end of a note."""
    rng = stage.rng
    titles = rng.sample(TITLES, 4)
    wanted, line = titles[0], rng.choice(LINES)
    rng.shuffle(titles)
    before: list[str] = []
    for title in titles:
        lines = rng.sample([other for other in LINES if other != line], 3)
        if title == wanted:
            before = lines
        stage.call("simple_note", "create_note", title=title, content="\n".join(lines))
    evaluation = f"""\
    with test("one note was changed"):
        added, updated, removed = models.changed_records("simple_note.Note")
        test.case((len(added), len(updated), len(removed)), "==", (0, 1, 0))
    with test("it is the right one, and has the line at its end"):
        note = updated[0]
        lines = [line for line in note.content.splitlines() if line.strip()]
        test.case((note.title, lines), "==", (public_data.title, list(public_data.lines)))
{NOTHING_ELSE}"""
    find = (
        f'{ALL_PAGES}notes = every(apis.simple_note.search_notes, access_token=token, query="{wanted}")\nprint(notes)'
    )
    add = f"""\
note_id = [note for note in notes if note["title"] == "{wanted}"][0]["note_id"]
before = apis.simple_note.show_note(note_id=note_id, access_token=token)["content"]
apis.simple_note.update_note(note_id=note_id, content=before + "\\n{line}", access_token=token)"""
    tests = (
        ("one note was changed", "no_op_fail"),
        ("it is the right one, and has the line at its end", "no_op_fail"),
        ("nothing else was changed", "no_op_pass"),
    )
    return Mini(
        f"Add the line '{line}' at the end of my SimpleNote note '{wanted}'.",
        evaluation,
        tests,
        (login("simple_note"), find, add, DONE),
        public={"title": wanted, "lines": [*before, line], "changes": ["simple_note.Note"]},
    )


def venmosum(stage: Stage) -> Mini:
    """How much money came from a friend."""
    rng = stage.rng
    friends = rng.sample(stage.others, 3)
    total = 0
    for number in range(rng.randint(7, 11)):
        friend = friends[number % 3]
        other, amount = rng.choice(friends), rng.randint(3, 60)
        what = {"amount": amount, "description": rng.choice(FOR)}
        total += amount if friend is friends[0] else 0
        stage.call("venmo", "create_transaction", friend, receiver_email=stage.me["email"], **what)
        if number % 2:
            stage.call("venmo", "create_transaction", receiver_email=other["email"], **what)
    friend = friends[0]
    show = f"{ALL_PAGES}rows = every(apis.venmo.show_transactions, access_token=token)\nprint(rows[:3])"
    count = f"""\
total = sum(
    row["amount"]
    for row in rows
    if row["sender"]["email"] == "{friend["email"]}" and row["receiver"]["email"] == me["email"]
)
print(total)"""
    return Mini(
        f"How much money have I received from {name_of(friend)} ({friend['email']}) on Venmo, in whole dollars?",
        ANSWERED,
        ANSWER_TESTS,
        (login("venmo"), show, count, "apis.supervisor.complete_task(answer=int(total))"),
        answer=total,
    )


def venmopay(stage: Stage) -> Mini:
    """Send money to somebody who is among the contacts."""
    rng = stage.rng
    relationships = rng.sample(RELATIONSHIPS, 3)
    receiver = stage.meet(relationships)[0]
    amount, what = rng.randint(5, 90), rng.choice(FOR)
    evaluation = f"""\
    with test("one transaction was made"):
        added, updated, removed = models.changed_records("venmo.Transaction")
        test.case((len(added), len(updated), len(removed)), "==", (1, 0, 0))
    with test("it is from you to the right person, with the right amount and note"):
        users = models.end.venmo.User
        sender, receiver = users.by_id(added[0].sender_id), users.by_id(added[0].receiver_id)
        found = [sender.email, receiver.email, added[0].amount, added[0].description.strip().lower()]
        test.case(found, "==", [main_user.email, public_data.receiver, public_data.amount, public_data.note.lower()])
{NOTHING_ELSE}"""
    find = f"""\
phone = apis.phone.login(username=me["phone_number"], password=passwords["phone"])["access_token"]
found = apis.phone.search_contacts(access_token=phone, relationship="{relationships[0]}")
print(found)"""
    send = f"""\
apis.venmo.create_transaction(
    receiver_email=found[0]["email"], amount={amount}, description="{what}", access_token=token
)"""
    tests = (
        ("one transaction was made", "no_op_fail"),
        ("it is from you to the right person, with the right amount and note", "no_op_fail"),
        ("nothing else was changed", "no_op_pass"),
    )
    return Mini(
        f"Send ${amount} to my {relationships[0]} on Venmo, with the note '{what}'. My phone's contacts say who it is.",
        evaluation,
        tests,
        (login("venmo"), find, send, DONE),
        public={
            "receiver": receiver["email"],
            "amount": amount,
            "note": what,
            "changes": ["venmo.Transaction", "venmo.User", "venmo.Notification"],
        },
    )


def tododone(stage: Stage) -> Mini:
    """Complete the tasks of a project that have a priority."""
    rng = stage.rng
    projects = rng.sample(TITLES, 2)
    wanted, priority = projects[0], rng.choice(("high", "medium", "low"))
    ids = []
    for project in projects:
        made = stage.call("todoist", "create_project", name=project)["project_id"]
        levels = [priority, priority, *(rng.choice(("high", "medium", "low")) for _ in range(4))]
        rng.shuffle(levels)
        for line, level in zip(rng.sample(LINES, 6), levels, strict=True):
            task = stage.call("todoist", "create_task", project_id=made, title=line, priority=level)["task_id"]
            if project == wanted and level == priority:
                ids.append(task)
    evaluation = f"""\
    with test("the right tasks are completed, and no others"):
        added, updated, removed = models.changed_records("todoist.Task")
        test.case((added, removed), "==", ([], []))
        done = sorted(task.id for task in updated if task.is_completed)
        test.case((done, len(updated)), "==", (sorted(public_data.tasks), len(public_data.tasks)))
{NOTHING_ELSE}"""
    find = f"""\
{ALL_PAGES}projects = every(apis.todoist.show_projects, access_token=token)
project_id = [project for project in projects if project["name"] == "{wanted}"][0]["project_id"]
tasks = apis.todoist.show_tasks(project_id=project_id, access_token=token, priority="{priority}")["no_section_tasks"]
print([task["title"] for task in tasks])"""
    do = """\
for task in tasks:
    apis.todoist.update_task(task_id=task["task_id"], is_completed=True, access_token=token)"""
    return Mini(
        f"Mark every task of {priority} priority in my Todoist project '{wanted}' as completed.",
        evaluation,
        (
            ("the right tasks are completed, and no others", "no_op_fail"),
            ("nothing else was changed", "no_op_pass"),
        ),
        (login("todoist"), find, do, DONE),
        public={"tasks": ids, "changes": ["todoist.Task"]},
    )


def _playlists(stage: Stage) -> tuple[str, list[dict[str, Any]]]:
    """Two playlists of eight songs; the title of one, and its songs."""
    rng, page = stage.rng, 0
    songs: list[dict[str, Any]] = []
    while more := stage.apis.spotify.search_songs(page_index=page, page_limit=20):
        songs, page = songs + more, page + 1
    titles = rng.sample(TITLES, 2)
    chosen: list[dict[str, Any]] = []
    for title in titles:
        made = stage.call("spotify", "create_playlist", title=title)["playlist_id"]
        chosen = rng.sample(songs, 8)
        for song in chosen:
            stage.call("spotify", "add_song_to_playlist", playlist_id=made, song_id=song["song_id"])
    return titles[-1], chosen


_PLAYLIST = """\
{every}lists = every(apis.spotify.show_playlist_library, access_token=token)
playlist_id = [one for one in lists if one["title"] == "{title}"][0]["playlist_id"]
found = apis.spotify.show_playlist(playlist_id=playlist_id, access_token=token)["songs"]
songs = [apis.spotify.show_song(song_id=one["id"]) for one in found]
print([(song["title"], song["genre"], song["duration"]) for song in songs])"""


def songlike(stage: Stage) -> Mini:
    """Like the songs of a genre in a playlist."""
    title, songs = _playlists(stage)
    genre = stage.rng.choice(sorted({song["genre"] for song in songs}))
    evaluation = f"""\
    with test("the right songs are liked, and no others"):
        added, updated, removed = models.changed_records("spotify.SongLike")
        test.case((updated, removed), "==", ([], []))
        user = models.end.spotify.User.find_one(email=main_user.email)
        liked = sorted(like.song_id for like in added)
        test.case(liked, "==", sorted(public_data.songs))
        test.case({{like.user_id for like in added}}, "==", {{user.id}})
{NOTHING_ELSE}"""
    like = f"""\
for song in songs:
    if song["genre"] == "{genre}":
        apis.spotify.like_song(song_id=song["song_id"], access_token=token)"""
    return Mini(
        f"Like every {genre} song of my Spotify playlist '{title}'.",
        evaluation,
        (("the right songs are liked, and no others", "no_op_fail"), ("nothing else was changed", "no_op_pass")),
        (login("spotify"), _PLAYLIST.format(every=ALL_PAGES, title=title), like, DONE),
        public={
            "songs": [song["song_id"] for song in songs if song["genre"] == genre],
            "changes": ["spotify.SongLike", "spotify.Song"],
        },
    )


def textsend(stage: Stage) -> Mini:
    """Send a text message to somebody who is among the contacts."""
    rng = stage.rng
    relationships = rng.sample(RELATIONSHIPS, 3)
    receiver, message = stage.meet(relationships)[0], rng.choice(MESSAGES)
    evaluation = f"""\
    with test("one message was sent"):
        added, updated, removed = models.changed_records("phone.GlobalTextMessage")
        test.case((len(added), len(updated), len(removed)), "==", (1, 0, 0))
    with test("it went to the right person, and says what it should"):
        users = models.end.phone.User
        sender, receiver = users.by_id(added[0].sender_id), users.by_id(added[0].receiver_id)
        found = [sender.phone_number, receiver.phone_number, added[0].message.strip()]
        test.case(found, "==", [main_user.phone_number, public_data.receiver, public_data.message])
{NOTHING_ELSE}"""
    find = f"""\
found = apis.phone.search_contacts(access_token=token, relationship="{relationships[0]}")
print(found)"""
    send = f"""\
apis.phone.send_text_message(phone_number=found[0]["phone_number"], message="{message}", access_token=token)"""
    tests = (
        ("one message was sent", "no_op_fail"),
        ("it went to the right person, and says what it should", "no_op_fail"),
        ("nothing else was changed", "no_op_pass"),
    )
    return Mini(
        f"Send my {relationships[0]} a text message that says '{message}'",
        evaluation,
        tests,
        (login("phone"), find, send, DONE),
        public={
            "receiver": receiver["phone_number"],
            "message": message,
            "changes": ["phone.GlobalTextMessage", "phone.UserTextMessage"],
        },
    )


def filesclean(stage: Stage) -> Mini:
    """Delete the files of a folder that have an extension."""
    rng = stage.rng
    extension = rng.choice(EXTENSIONS)
    for folder in ("downloads", "documents"):
        for name in rng.sample(FILES, 6):
            path = f"~/{folder}/{name}.{rng.choice((*EXTENSIONS, 'txt'))}"
            stage.call("file_system", "create_file", file_path=path, content=rng.choice(LINES))
    for name in ("old", "older"):
        stage.call("file_system", "create_file", file_path=f"~/downloads/{name}.{extension}", content="-")
    evaluation = f"""\
    with test("the right files are gone, and no others"):
        added, updated, removed = models.changed_records("file_system.File")
        test.case((added, updated), "==", ([], []))
        user = models.start.file_system.User.find_one(email=main_user.email)
        every = models.start.file_system.File.find_all(user_id=user.id)
        end = "." + public_data.extension
        wanted = sorted(
            file.path for file in every if file.tilde_path.startswith("~/downloads/") and file.path.endswith(end)
        )
        test.case(sorted(file.path for file in removed), "==", wanted)
{NOTHING_ELSE}"""
    find = """\
paths = apis.file_system.show_directory(directory_path="~/downloads/", entry_type="files", access_token=token)
print(paths)"""
    delete = f"""\
for path in paths:
    if path.endswith(".{extension}"):
        apis.file_system.delete_file(file_path=path, access_token=token)"""
    return Mini(
        f"Delete every .{extension} file in ~/downloads/ of my file system.",
        evaluation,
        (("the right files are gone, and no others", "no_op_fail"), ("nothing else was changed", "no_op_pass")),
        (login("file_system"), find, delete, DONE),
        public={"extension": extension, "changes": ["file_system.File", "file_system.Directory"]},
    )


def alarmshift(stage: Stage) -> Mini:
    """Move an alarm to an earlier time."""
    rng = stage.rng
    labels = rng.sample(ALARMS, 3)
    minutes = rng.choice((10, 15, 20, 30, 45))
    times = rng.sample(range(6 * 60, 20 * 60, 5), 3)
    for label, time in zip(labels, times, strict=True):
        stage.call("phone", "create_alarm", time=f"{time // 60:02}:{time % 60:02}", label=label)
    earlier = times[0] - minutes
    evaluation = f"""\
    with test("one alarm was changed"):
        added, updated, removed = models.changed_records("phone.Alarm")
        test.case((len(added), len(updated), len(removed)), "==", (0, 1, 0))
    with test("it is the right one, and rings at the right time"):
        test.case((updated[0].label, updated[0].time), "==", (public_data.label, public_data.time))
{NOTHING_ELSE}"""
    find = f"""\
{ALL_PAGES}alarms = every(apis.phone.show_alarms, access_token=token)
alarm = [one for one in alarms if one["label"] == "{labels[0]}"][0]
print(alarm)"""
    move = f"""\
hours, minutes = map(int, alarm["time"].split(":"))
total = hours * 60 + minutes - {minutes}
time = f"{{total // 60:02}}:{{total % 60:02}}"
apis.phone.update_alarm(alarm_id=alarm["alarm_id"], time=time, access_token=token)"""
    tests = (
        ("one alarm was changed", "no_op_fail"),
        ("it is the right one, and rings at the right time", "no_op_fail"),
        ("nothing else was changed", "no_op_pass"),
    )
    return Mini(
        f"Set my '{labels[0]}' alarm {minutes} minutes earlier.",
        evaluation,
        tests,
        (login("phone"), find, move, DONE),
        public={"label": labels[0], "time": f"{earlier // 60:02}:{earlier % 60:02}", "changes": ["phone.Alarm"]},
    )


def songlong(stage: Stage) -> Mini:
    """The longest song of a playlist."""
    title, songs = _playlists(stage)
    longest = max(songs, key=lambda song: song["duration"])["title"]
    find = 'longest = max(songs, key=lambda song: song["duration"])["title"]\nprint(longest)'
    return Mini(
        f"What is the title of the longest song in my Spotify playlist '{title}'?",
        ANSWERED,
        ANSWER_TESTS,
        (
            login("spotify"),
            _PLAYLIST.format(every=ALL_PAGES, title=title),
            find,
            "apis.supervisor.complete_task(answer=longest)",
        ),
        answer=longest,
    )


def splitowe(stage: Stage) -> Mini:
    """How much somebody owes in a group."""
    rng = stage.rng
    friends = rng.sample(stage.others, 2)
    emails = [friend["email"] for friend in friends]
    wanted, other = rng.sample(GROUPS, 2)
    total = 0
    for name in (wanted, other):
        made = stage.call("splitwise", "create_group", name=name, member_emails=emails)["group_id"]
        for _ in range(rng.randint(3, 5)):
            amounts = [rng.randint(2, 40), rng.randint(2, 40)]
            stage.call(
                "splitwise",
                "record_expense",
                description=rng.choice(FOR),
                paid_amount=sum(amounts),
                payer_email=stage.me["email"],
                debtor_emails=emails,
                debt_amounts=amounts,
                group_id=made,
            )
            total += amounts[0] if name == wanted else 0
    find = f"""\
{ALL_PAGES}groups = every(apis.splitwise.show_groups, access_token=token)
group_id = [group for group in groups if group["name"] == "{wanted}"][0]["group_id"]
expenses = every(apis.splitwise.show_group_expenses, group_id=group_id, access_token=token)
print(expenses[:2])"""
    count = f"""\
owed = 0
for expense in expenses:
    owed += sum(
        share["debt_amount"] for share in expense["shares"] if share["debtor"]["email"] == "{emails[0]}"
    )
print(owed)"""
    return Mini(
        f"How much does {name_of(friends[0])} ({emails[0]}) owe me for what I paid in my Splitwise group '{wanted}', "
        "in whole dollars?",
        ANSWERED,
        ANSWER_TESTS,
        (login("splitwise"), find, count, "apis.supervisor.complete_task(answer=int(owed))"),
        answer=total,
    )


def cartcheap(stage: Stage) -> Mini:
    """Put the cheapest product that is rated well into the cart."""
    kind = stage.rng.choice(PRODUCTS)
    rating = stage.rng.choice((2, 3, 4))
    products = stage.apis.amazon.search_products(product_type=kind, min_product_rating=rating, page_limit=20)
    cheapest = min(products, key=lambda product: product["price"])["product_id"]
    evaluation = f"""\
    with test("one product was put into the cart"):
        added, updated, removed = models.changed_records("amazon.CartEntry")
        test.case((len(added), len(updated), len(removed)), "==", (1, 0, 0))
    with test("it is the right one, once, and the cart is yours"):
        user = models.end.amazon.User.find_one(email=main_user.email)
        found = [added[0].user_id, added[0].product_id, added[0].quantity]
        test.case(found, "==", [user.id, public_data.product, 1])
{NOTHING_ELSE}"""
    find = f"""\
{ALL_PAGES}products = every(apis.amazon.search_products, product_type="{kind}", min_product_rating={rating})
print([(product["name"], product["price"]) for product in products])"""
    add = """\
cheapest = min(products, key=lambda product: product["price"])
apis.amazon.add_product_to_cart(product_id=cheapest["product_id"], quantity=1, access_token=token)"""
    tests = (
        ("one product was put into the cart", "no_op_fail"),
        ("it is the right one, once, and the cart is yours", "no_op_fail"),
        ("nothing else was changed", "no_op_pass"),
    )
    return Mini(
        f"Put the cheapest {kind} that is rated {rating} or better into my Amazon cart.",
        evaluation,
        tests,
        (login("amazon"), find, add, DONE),
        public={"product": cheapest, "changes": ["amazon.CartEntry"]},
    )


SEEN: tuple[Callable[[Stage], Mini], ...] = (
    notetag,
    noteline,
    venmosum,
    venmopay,
    tododone,
    songlike,
    textsend,
    filesclean,
)
"""The kinds of ``train`` and ``test_normal``."""
UNSEEN: tuple[Callable[[Stage], Mini], ...] = (alarmshift, songlong, splitowe, cartcheap)
"""Those of ``test_challenge``; Splitwise and Amazon are in no other."""
