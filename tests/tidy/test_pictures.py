"""The pictures of terminals are what the commands print today."""

import importlib.util


def test_the_pictures_are_those_that_would_be_drawn_now(root) -> None:
    place = root / "docs" / "images" / "pictures.py"
    spec = importlib.util.spec_from_file_location("pictures", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    for name, text in module.drawn().items():
        assert text == (place.parent / name).read_text(), f"make pictures, for {name}"
