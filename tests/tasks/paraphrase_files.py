"""Lines of files of paraphrases, and what writes them."""

import json
from pathlib import Path

HEADER: dict[str, object] = {"paraphrases": 1, "source": "en-de-en and en-zh-en, opus-mt"}
FILM: dict[str, object] = {"text": ["A film."], "paraphrases": [["A movie."], ["Film."], ["…"]]}
PAIR: dict[str, object] = {"text": ["a", "b"], "paraphrases": [["c", "d"], ["e", "f"]]}


def write(file: Path, *lines: object) -> None:
    told = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("".join(f"{line}\n" for line in told))
