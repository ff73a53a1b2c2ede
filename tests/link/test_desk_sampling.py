"""What a person reads before writing in a model's place, and what becomes of their text."""

from __future__ import annotations

from mcpdesk.inbox.question import Answer
from mcpdesk.link.desk_sampling import MODEL, page_of, result_of
from mcpdesk.server.asks.question_wording import read_sampled

ASKED = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "The capital of France?"}},
        {"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
    ],
    "systemPrompt": "Be brief.",
    "maxTokens": 50,
    "temperature": 0.2,
    "stopSequences": ["."],
    "modelPreferences": {"hints": [{"name": "sonnet"}], "speedPriority": 0.8},
}


def test_messages_and_wishes_are_there_to_be_read() -> None:
    page = page_of(ASKED)
    assert page.is_long and page.is_required
    assert page.detail.split("\n\n") == [
        "system: Be brief.",
        "user: The capital of France?",
        "user: [image image/png]",
        "wants sonnet · fast 0.8 · at most 50 tokens · temperature 0.2 · stops at '.'",
    ]


def test_the_text_is_the_answer_of_a_model() -> None:
    sampled = read_sampled(result_of(Answer(other="Paris")))
    assert (sampled.text, sampled.model, sampled.stop_reason) == ("Paris", MODEL, "endTurn")
