"""The fields that the step layout puts into each row's ``extra_fields``, for trainers to read.

verl carries them through TransferQueue unchanged, as one dict a row. A padding row of verl's is a copy of another row
with its fields: its tag ``is_padding`` tells it apart. Beside these, a row has what the rollout server said of its
generation (``min_global_steps`` and others) and ``reward_extra_info``.
"""

from __future__ import annotations

from typing import Final, TypedDict

SESSION: Final = "session"
STEP: Final = "step"
LAST: Final = "last"
STEP_REWARD: Final = "step_reward"
EPISODE_REWARD: Final = "episode_reward"
STATE: Final = "state"
NEXT_STATE: Final = "next_state"
FORMAT_VALID: Final = "format_valid"
ADMISSIBLE: Final = "admissible"
VALID: Final = "valid"
PENALTY: Final = "penalty"
TERMINATED: Final = "terminated"
TRUNCATED: Final = "truncated"
SUCCESS: Final = "success"
COUNTS: Final = "counts"
BOOTSTRAP: Final = "bootstrap"


class StepFields(TypedDict):
    """One row's fields; all of them are in every row.

    Keys:
        session: the same for all rows of an episode, and for no others: ``{uid}_{session_id}`` of verl's.
        step: from 0.
        last: whether it is the episode's last step.
        step_reward: what the environment said the step was worth, without any penalty. An environment that answers
            with no `Observation` says nothing: its last step is then worth the episode's reward, the others 0.
        episode_reward: the episode's, the same on all of its rows.
        state: key of the state that the model acted in, the observation's; of a state without one, a hash of the text.
        next_state: key of the state after the step, which is the next row's ``state``.
        format_valid: whether the reply could be read: an action, calls, or a reply that ends a turn.
        admissible: whether the environment admits the action: it is among the actions named, or none are named; no
            call was refused.
        valid: the two together, as the option ``invalid`` says.
        penalty: what is to be taken off for the step being invalid; 0.0 or the option ``invalid_penalty``. It is in no
            reward.
        terminated: whether the episode came to an end of its own with this step, its last: the environment's, or the
            reply that ended the last turn.
        truncated: whether it was cut off after this step, its last, by the environment or by ``max_steps``.
        success: whether the episode reached its goal, the same on all of its rows: ``info["success"]`` of the last
            observation, or, if the environment does not say, a reward of 1 of an episode that was not truncated.
        counts: False on all rows of a truncated episode that is to be left out.
        bootstrap: whether the value after this step is to be had from a critic: True on the last row of a truncated
            episode if the option ``truncated`` is ``bootstrap``.
    """

    session: str
    step: int
    last: bool
    step_reward: float
    episode_reward: float
    state: str
    next_state: str
    format_valid: bool
    admissible: bool
    valid: bool
    penalty: float
    terminated: bool
    truncated: bool
    success: bool
    counts: bool
    bootstrap: bool
