"""A run for each of its file operations, which that one does not survive, and what resumes it.

python every_step.py SIGKILL|SIGTERM|SIGINT|resume|fail <folder> <overrides>
"""

import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import impatient.app.run  # noqa: E402, F401  # once, for all that are forked

CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}


def run(folder: Path, *args: str, step: int = -1, how: str = "SIGKILL") -> tuple[int, int]:
    """train.py in a process of its own: its exit status (or minus its signal), and how many changes it began to make.

    step: the change, counted from 1, before which it gets the signal `how`; or which fails, as on a full disk.
    """
    reader, writer = os.pipe()
    if pid := os.fork():
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            steps = len(pipe.read())
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), steps
    output = os.open(folder.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    count = 0

    def seen(event: str, args: tuple) -> None:
        nonlocal count
        if event not in CHANGES or not str(args[0]).startswith(str(folder)):
            return
        if event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR):
            return
        count += 1
        os.write(writer, b".")
        if count == step and how == "fail":
            raise OSError(28, "No space left on device", args[0])
        if count == step:
            os.kill(os.getpid(), signal.Signals[how])

    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in a shell's background
    sys.addaudithook(seen)
    sys.argv = [str(ROOT / "src/train.py"), f"hydra.run.dir={folder}", *args]
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    os._exit(code)


def main(how: str, folder: Path, options: list[str]) -> None:
    """Exit statuses of the straight run, and for each step of those that were hit and of those that resumed them."""
    status, steps = run(folder / "straight", *options)
    last = steps
    if how == "resume":  # half of it is done, and the steps are those of the resumed run
        run(folder / "half", *options, step=last * 2 // 3)
        _, steps = run(folder / "half", "ckpt_path=last")
    hit, resumed = [], []
    for step in range(1, steps + 1):
        at = folder / f"step{step}"
        if how == "resume":
            run(at, *options, step=last * 2 // 3)
            hit.append(run(at, "ckpt_path=last", step=step)[0])
        else:
            hit.append(run(at, *options, "ckpt_path=last", step=step, how=how)[0])
        begun = (at / "overrides.json").exists()
        resumed.append(run(at, *([] if begun else options), "ckpt_path=last")[0])
    (folder / "statuses.json").write_text(json.dumps({"straight": status, "hit": hit, "resumed": resumed}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
