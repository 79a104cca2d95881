"""A small tokenizer with a chat template, for tests that need one and no model's in particular."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = (
    "{% if tools %}<s>tools\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}</s>{% endif %}"
    "{% for message in messages %}<s>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% if not thinking %}no thoughts{% endif %}{% endif %}"
)


def save_tokenizer(folder: Path, template: str | None = TEMPLATE) -> Path:
    """Save a tokenizer of bytes, without merges, that splits at its special tokens; `template` None leaves it out."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    fast.chat_template = template
    fast.save_pretrained(folder)
    return folder
