"""An inbox that can be searched and read."""

from __future__ import annotations

from agent_env import Environment, Task, ToolError, tool

from .mail import as_text, make_inbox


class Inbox(Environment):
    """The inbox whose number is ``task.env["inbox"]``."""

    def reset(self, task: Task, seed: int) -> None:
        self.emails = make_inbox(task.env["inbox"])

    @tool
    def search_emails(self, query: str) -> list[dict[str, str]]:
        """Find emails by words in their sender, subject or body.

        Args:
            query: words that must all occur; empty for every email.
        """
        words = query.lower().split()
        found = [email for email in self.emails if all(word in as_text(email).lower() for word in words)]
        return [{"id": email.id, "sender": email.sender, "subject": email.subject} for email in found]

    @tool
    def read_email(self, id: str) -> str:
        """Read one email.

        Args:
            id: of the email, as search_emails gives it.
        """
        for email in self.emails:
            if email.id == id:
                return as_text(email)
        raise ToolError(f"id: there is no email {id!r}; search_emails lists them")
