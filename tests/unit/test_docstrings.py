from agent_env.docstrings import parse


def test_text_and_arguments():
    def method(self):
        """Open a container.

        It may be locked.

        Args:
            container: its name,
                as seen in the room.
            force (bool): whether to break it: loudly.

        Returns:
            what: is inside.
        """

    text, arguments = parse(method.__doc__)
    assert text == "Open a container.\n\nIt may be locked."
    assert arguments == {"container": "its name, as seen in the room.", "force": "whether to break it: loudly."}


def test_no_docstring_and_no_arguments():
    assert parse(None) == ("", {})
    assert parse("Look around.") == ("Look around.", {})


def test_text_after_a_section_belongs_to_no_argument():
    assert parse("A.\n\nRaises:\n    ToolError: never.\n\nArgs:\n    x: a thing.") == ("A.", {"x": "a thing."})
