"""Pictures in both layouts on verl itself: what the model is shown, what a row holds, and what verl makes of it."""

import itertools
import warnings
from types import SimpleNamespace

import pytest
import torch

from agent_env.errors import EpisodeFailed, PromptTooLong, RolloutFailed
from agent_env.pictures import as_url, name_of, opened
from agent_env.training.shared import Shared
from agent_env.training.traces import read_traces
from support.servers import serving
from support.tiny_vlm import write_vlm
from support.verl_tier import GALLERY, Written, hermes, rollout, spans, trainer_config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.utils import hf_tokenizer
    from verl.utils.tokenizer import hf_processor

    from agent_env.training.verl.cpu.asked import evaluation_config
    from agent_env.training.verl.cpu.evaluate import evaluate

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of transformers

TEXTS = ['<|im_start|>user\nPush.\n<|im_end|>\n<|im_start|>assistant\n{"colours": ["red", "blue"]}<|im_end|>\n'] * 5
UP, LEFT = "<action>up</action>", "<action>left</action>"
ROOM, WALL = 36, 4
"""Placeholders of a room of 96×96 pixels, and of a picture of 32×32."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_vlm(tmp_path_factory.mktemp("vlm"), TEXTS)


@pytest.fixture(scope="module")
def tokenizer(folder):
    return hf_tokenizer(folder)


@pytest.fixture(scope="module")
def processor(folder):
    return hf_processor(folder)


def served(bundle, tmp_path_factory, **options):
    with serving(bundle, "--max-sessions", "16") as server:
        yield Written(Shared(server.url), tmp_path_factory.mktemp("written") / "data", **options)


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Sokoban's rows in the step layout."""
    yield from served("sokoban", tmp_path_factory, context="steps")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """The gallery's rows, as conversations."""
    yield from served(GALLERY, tmp_path_factory)


@pytest.fixture(scope="module")
def halls(tmp_path_factory):
    """The gallery's rows in the step layout."""
    yield from served(GALLERY, tmp_path_factory, context="steps")


@pytest.fixture
def push(tokenizer, processor, rooms):
    """Play the first room, seen as a picture, in the step layout."""

    async def push(*replies, sees=True, **options):
        shown = {"processor": processor} if sees else {}
        return await rollout(tokenizer, rooms, "room-0-pictures", *replies, **{**shown, **options})

    return push


@pytest.fixture
def visit(tokenizer, processor, gallery):
    """Play a task of the gallery as a conversation."""

    async def visit(task, *replies, **options):
        return await rollout(tokenizer, gallery, f"train-{task}", *replies, processor=processor, **options)

    return visit


def look(*colours, **arguments):
    return hermes(("look", {"colours": list(colours), **arguments}))


def runs(processor, token_ids):
    """Lengths of the runs of placeholders."""
    groups = itertools.groupby(token_ids)
    return [len(list(group)) for token, group in groups if token == processor.image_token_id]


def images_of(row):
    return (row.multi_modal_data or {}).get("images", [])


def made_by_verl(tokenizer, processor, row):
    """What verl's worker makes of a row: the model's inputs, and the positions; fails where it would."""
    worker = SimpleNamespace(tokenizer=tokenizer, processor=processor, _get_mm_processor_kwargs=lambda audio: {})
    ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
    inputs = AgentLoopWorker._compute_multi_modal_inputs(worker, row, ids[0])
    positions = AgentLoopWorker._compute_position_ids(worker, ids, torch.ones_like(ids), inputs)
    return inputs, positions


def check_row(tokenizer, processor, row):
    """A row has the pictures that its placeholders are of, and verl can make features of it."""
    ids = [*row.prompt_ids, *row.response_ids]
    found = runs(processor, ids)
    assert len(found) == len(images_of(row))
    inputs, positions = made_by_verl(tokenizer, processor, row)
    assert positions.shape == (1, 4, len(ids))
    if found:
        assert (inputs["image_grid_thw"].prod(-1) // 4).tolist() == found


class TestSteps:
    async def test_each_prompt_shows_the_current_picture_alone(self, push, tokenizer, processor):
        played = await push(UP, "hm", LEFT, max_steps=3, memory="recent(2)")
        assert [runs(processor, prompt) for prompt in played.model.prompts] == [[ROOM]] * 3
        shown = [images_of(row) for row in played.output]
        assert shown == played.model.images
        assert [image.size for (image,) in shown] == [(96, 96)] * 3
        # Nothing was done by "hm"; what was seen then is still seen.
        assert played.rows[1]["state"] == played.rows[2]["state"] != played.rows[0]["state"]
        assert shown[1] == shown[2] != shown[0]
        for row, reply in zip(played.output, played.model.replies, strict=True):
            check_row(tokenizer, processor, row)
            assert (row.response_ids, row.response_mask) == (reply, [1] * len(reply))
        # The past is told in words, with a mark where a picture was.
        assert played.shown(2).count("Observation: [picture]") == 2
        assert "[picture]" not in played.shown(0)

    async def test_no_placeholder_is_drawn_that_the_server_could_be_kept_from(self, push, processor):
        played = await push(UP, max_steps=1)
        (params,) = played.model.sampling_params
        assert params["logit_bias"] == dict.fromkeys(
            range(processor.image_token_id - 2, processor.image_token_id + 2), -100
        )

    async def test_one_that_is_drawn_nevertheless_ends_the_reply_before_it(self, push, tokenizer, processor):
        drawn = [*tokenizer.encode(UP), processor.image_token_id, processor.image_token_id, tokenizer.eos_token_id]
        played = await push(drawn, LEFT, max_steps=2, memory="recent(2)")
        assert played.output[0].response_ids == drawn[:-3]
        assert len(played.output[0].response_logprobs) == len(drawn) - 3
        assert played.rows[0]["format_valid"] is True
        assert runs(processor, played.model.prompts[1]) == [ROOM]
        for row in played.output:
            check_row(tokenizer, processor, row)

    async def test_one_that_is_spelled_in_letters_too(self, push, tokenizer, processor):
        letters = [token for letter in "<|image_pad|>" for token in tokenizer.encode(letter)]
        assert processor.image_token_id not in letters
        played = await push([*tokenizer.encode(UP), *letters, *letters], UP, max_steps=2, memory="recent(2)")
        text = tokenizer.decode(played.output[0].response_ids)
        assert text == f"{UP}<|image_pad|"
        assert runs(processor, played.model.prompts[1]) == [ROOM]
        for row in played.output:
            check_row(tokenizer, processor, row)

    async def test_an_action_that_spells_one_is_told_of_harmlessly(self, push, tokenizer, processor):
        # By a model that was kept from drawing placeholders and wrote one into its action, and a template that has it.
        template = "{{ task }} {{ observation }} {{ images }} <|image_pad|><|vision_start|>"
        played = await push(UP, UP, max_steps=2, step_prompt=template)
        assert [runs(processor, prompt) for prompt in played.model.prompts] == [[ROOM]] * 2
        assert "< |image_pad|>< |vision_start|>" in played.shown(1)

    async def test_only_placeholders_are_a_failure(self, push, processor):
        with pytest.raises(RolloutFailed, match="drew a picture's placeholder"):
            await push([processor.image_token_id])

    async def test_a_template_may_leave_the_place_of_pictures_open(self, push, processor, tokenizer):
        played = await push(UP, max_steps=1, step_prompt="{{ task }} {{ observation }}")
        assert runs(processor, played.model.prompts[0]) == [ROOM]
        before = tokenizer.decode(played.model.prompts[0]).split("<|vision_start|>")[0]
        assert before.endswith("<|im_start|>user\n")

    async def test_pictures_never_give_way(self, push):
        with pytest.raises(PromptTooLong, match=r"step 1: without memory .* tokens, with its 1 picture, over 480"):
            await push(UP, config=trainer_config(prompt_length=480))

    async def test_memory_gives_way_to_them(self, push, tokenizer, processor):
        whole = await push(UP, UP, UP, UP, max_steps=4, memory="full")
        limit = len(whole.model.prompts[2]) - 1
        played = await push(UP, UP, UP, UP, max_steps=4, memory="full", config=trainer_config(prompt_length=limit))
        assert len(played.model.prompts[3]) <= limit
        assert runs(processor, played.model.prompts[3]) == [ROOM]
        check_row(tokenizer, processor, played.output[3])

    async def test_a_model_of_text_alone_is_shown_none_and_that_is_said(self, push, processor, caplog):
        played = await push(UP, max_steps=1, sees=False)
        assert runs(processor, played.model.prompts[0]) == []
        assert images_of(played.output[0]) == []
        assert any("this model is shown text alone" in message for message in caplog.messages)

    async def test_traces_keep_each_picture_once(self, push, tmp_path):
        await push(UP, "hm", "hm", max_steps=3, traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        seen = [step.images for step in trace.steps]
        assert len(seen) == 3
        assert seen[1] == seen[2] != seen[0]
        assert {f"images/{file.name}" for file in (tmp_path / "images").iterdir()} == {path for (path,) in seen}
        assert "[picture]" in trace.steps[0].prompt

    async def test_all_pictures_of_a_message_are_shown(self, halls, tokenizer, processor):
        played = await rollout(tokenizer, halls, "train-entrance", look("blue", "green"), "red", processor=processor)
        assert [len(images) for images in played.model.images] == [1, 2]
        assert [image.getpixel((0, 0)) for image in played.model.images[1]] == [(0, 0, 255), (0, 128, 0)]
        for row in played.output:
            check_row(tokenizer, processor, row)
        assert played.output[0].reward_score == 1.0

    async def test_after_a_mistake_the_last_picture_is_still_seen(self, halls, tokenizer, processor):
        mistake = hermes(("look", {"colour": "blue"}))
        played = await rollout(tokenizer, halls, "train-entrance", mistake, "red", processor=processor)
        assert "Invalid arguments for look" in played.shown(1)
        assert played.model.images[0] == played.model.images[1]

    async def test_what_cannot_be_opened_is_a_failure_of_the_environment(self, halls, tokenizer, processor):
        torn = hermes(("torn", {}))
        with pytest.raises(RolloutFailed, match="a picture that no model can be shown: a PNG file") as failed:
            await rollout(tokenizer, halls, "train-plain", torn, torn, torn, processor=processor)
        assert {type(error) for error in failed.value.attempts} == {EpisodeFailed}


def test_an_evaluation_looks_too(folder, tmp_path_factory, tmp_path):
    options = {"max_steps": 2, "max_step_tokens": 4}
    for rows in served("sokoban", tmp_path_factory, context="steps", step_options=options, traces=str(tmp_path)):
        found = evaluate(evaluation_config(str(folder)), rows.out, "eval-pictures", temperature=1.0, n=3)
    assert found.failures == ()
    assert [episode.rows for episode in found.played] == [2, 2, 2]
    shown = [step.images for trace in read_traces(tmp_path) for step in trace.steps]
    assert [len(images) for images in shown] == [1] * 6
    assert len({*shown}) == 3  # rooms; nothing was done in them


class TestConversation:
    async def test_pictures_of_the_start_and_of_answers(self, visit, tokenizer, processor):
        played = await visit("entrance", look("blue", "green"), look("red"), "red")
        row, model = played.output, played.model
        assert [len(images) for images in model.images] == [1, 3, 4]
        assert [image.getpixel((0, 0))[0] for image in images_of(row)] == [255, 0, 0, 255]
        check_row(tokenizer, processor, row)
        # Each prompt is the one before it with what was drawn, and something appended: tokens in, tokens out.
        for before, reply, after in zip(model.prompts, model.replies, model.prompts[1:], strict=False):
            assert after[: len(before) + len(reply)] == [*before, *reply]
        assert [*row.prompt_ids, *row.response_ids] == [*model.prompts[2], *model.replies[2]]
        # The model's tokens count, and nothing of a picture does.
        assert [kind for kind, _, _ in spans(row.response_mask)] == [1, 0, 1, 0, 1]
        drawn = [token for token, mask in zip(row.response_ids, row.response_mask, strict=True) if mask]
        assert drawn == [token for reply in model.replies for token in reply]
        shown = [token for token, mask in zip(row.response_ids, row.response_mask, strict=True) if not mask]
        assert runs(processor, shown) == [WALL] * 3
        assert runs(processor, row.prompt_ids) == [WALL]
        numbers = [-n / 1000 for n in range(1, sum(map(len, model.replies)) + 1)]
        assert [p for p, mask in zip(row.response_logprobs, row.response_mask, strict=True) if mask] == numbers

    async def test_an_answer_that_nobody_reads_takes_its_pictures_along(self, visit, tokenizer, processor):
        config = trainer_config(response_length=70)
        played = await visit("entrance", look("blue"), look(*["green"] * 12), "red", config=config)
        assert played.output.response_mask[-1] == 1
        assert len(images_of(played.output)) == 2
        check_row(tokenizer, processor, played.output)

    async def test_a_row_that_is_cut_holds_the_pictures_of_what_is_left(self, visit, tokenizer, processor):
        for length in range(40, 120, 7):
            config = trainer_config(response_length=length)
            played = await visit("entrance", *[look("blue", "green")] * 4, "red", config=config)
            assert len(played.output.response_ids) <= length
            assert played.output.response_mask[-1] == 1
            check_row(tokenizer, processor, played.output)

    async def test_the_end_of_the_environment(self, visit, tokenizer, processor):
        played = await visit("entrance", hermes(("leave", {})), "red")
        assert len(images_of(played.output)) == 2
        check_row(tokenizer, processor, played.output)

    async def test_a_new_turn(self, visit, tokenizer, processor):
        ends = hermes(("end_turn", {"response": "red"}))
        played = await visit("two", look("blue"), ends, look("green"), "red")
        assert played.output.reward_score == 1.0
        assert [len(images) for images in played.model.images] == [1, 2, 2, 3]
        check_row(tokenizer, processor, played.output)

    async def test_placeholders_that_are_drawn_spelled_and_answered(self, visit, tokenizer, processor):
        drawn = [*tokenizer.encode(look("blue", text="<|image_pad|>")), processor.image_token_id]
        played = await visit("plain", drawn, [*tokenizer.encode("red"), processor.image_token_id])
        # The reply ends before the first, and so its call, which the model is told.
        assert "it is not valid JSON" in tokenizer.decode(played.output.response_ids)
        assert runs(processor, played.output.response_ids) == []
        assert tokenizer.decode(played.output.response_ids).endswith("red")
        check_row(tokenizer, processor, played.output)

    async def test_one_that_the_environment_spells_is_text(self, visit, tokenizer, processor):
        played = await visit("entrance", hermes(("poster", {})), "red")
        assert "THE < |image_pad|>S" in tokenizer.decode(played.output.response_ids)
        check_row(tokenizer, processor, played.output)

    async def test_a_first_prompt_that_is_too_long(self, visit):
        with pytest.raises(
            PromptTooLong, match=r"the first prompt has \d+ tokens with its tools, over .*prompt_length"
        ):
            played = await visit("plain", "red")
            room = len(played.model.prompts[0]) + 10
            await visit("large", "red", config=trainer_config(prompt_length=room))

    async def test_what_cannot_be_opened_is_a_failure_of_the_environment(self, visit):
        torn = hermes(("torn", {}))
        with pytest.raises(RolloutFailed, match="a picture that no model can be shown"):
            await visit("plain", torn, torn, torn)

    async def test_a_trace_names_files(self, visit, tmp_path):
        await visit("entrance", look("blue"), "red", traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        blocks = [
            block for message in trace.messages if isinstance(message["content"], list) for block in message["content"]
        ]
        files = [block["image"] for block in blocks if block["type"] == "image"]
        assert len(files) == 2
        for path, colour in zip(files, [(255, 0, 0), (0, 0, 255)], strict=True):
            data = (tmp_path / path).read_bytes()
            assert path == f"images/{name_of(as_url(data))}"
            assert opened(as_url(data)).getpixel((0, 0)) == colour
