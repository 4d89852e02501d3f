import logging
import os
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile

from impatient.checks import ConfigError
from impatient.data.image_folder import ImageFolder

GREY = {"channels": 1, "mean": [0.5], "std": [0.5]}


def paint(path, rgb=(10, 20, 30), size=(4, 6)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, rgb).save(path)


@pytest.fixture
def root(tmp_path):
    for part, n in (("train", 3), ("test", 1)):
        for c, name in enumerate(("cat", "dog")):
            for i in range(n):
                paint(tmp_path / "data" / part / name / f"{i}.png", (100 * c, i, 7))
    return tmp_path / "data"


def test_arrays(root):
    (root / "train" / ".hidden").mkdir()
    (root / "train" / "cat" / ".9.png").write_text("hidden")
    (root / "train" / "cat" / "notes.txt").write_text("no image")
    data = ImageFolder(str(root), [6, 4]).load(100, 0)
    assert data.classes == ("cat", "dog")
    assert data.x.shape == (6, 3, 6, 4)
    assert data.x.dtype == torch.uint8
    assert data.x[:, :, 0, 0].tolist() == [[100 * c, i, 7] for c in range(2) for i in range(3)]
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.y_test.tolist() == [0, 1]


def test_grey_upright_and_resized(root):
    turned = np.zeros((2, 4), dtype=np.uint8)
    turned[:, :2] = 255  # white on the left; orientation 6 means: turn by 90° clockwise, so white on top
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("cat", "dog"):
        for part, count in (("train", 3), ("test", 1)):
            for i in range(count):
                Image.fromarray(turned).save(root / part / name / f"{i}.png", exif=exif)
    data = ImageFolder(str(root), [4, 2], **GREY).load(1, 0)
    assert data.x[0, 0].tolist() == [[255, 255], [255, 255], [0, 0], [0, 0]]
    assert ImageFolder(str(root), [8, 8], **GREY).load(1, 0).x.shape == (6, 1, 8, 8)


def test_second_load_reads_the_cache(root, monkeypatch):
    source = ImageFolder(str(root), [6, 4])
    first = source.load(1, 0)
    (cache,) = (root / ".impatient_cache").iterdir()
    kept = torch.load(cache, weights_only=True)
    assert torch.equal(kept["x_test"], first.x_test)
    monkeypatch.setattr(ImageFolder, "_decode", lambda *_: pytest.fail("decoded again"))
    again = source.load(1, 0)
    assert torch.equal(again.x, first.x)
    assert torch.equal(again.y, first.y)


def test_a_changed_file_is_read_again(root):
    source = ImageFolder(str(root), [6, 4])
    source.load(1, 0)
    target = root / "train" / "dog" / "1.png"
    before = target.stat()
    paint(target, (1, 2, 3))
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert source.load(1, 0).x[4, :, 0, 0].tolist() == [1, 2, 3]
    target.unlink()
    assert len(source.load(1, 0).x) == 5
    assert len(list((root / ".impatient_cache").iterdir())) == 1


def test_another_size_does_not_meet_the_cache_of_the_first(root):
    assert ImageFolder(str(root), [6, 4]).load(1, 0).x.shape[1:] == (3, 6, 4)
    assert ImageFolder(str(root), [4, 6]).load(1, 0).x.shape[1:] == (3, 4, 6)


def test_a_torn_cache_is_as_good_as_none(root, tmp_path, caplog):
    source = ImageFolder(str(root), [6, 4], cache_dir=str(tmp_path / "cache"))
    first = source.load(1, 0)
    (cache,) = (tmp_path / "cache").iterdir()
    cache.write_bytes(cache.read_bytes()[:100])
    assert torch.equal(source.load(1, 0).x, first.x)
    assert "cannot read the cache" in caplog.text
    assert not (root / ".impatient_cache").exists()


def test_no_place_for_a_cache(root, tmp_path, caplog):
    (tmp_path / "taken").write_text("")
    with caplog.at_level(logging.INFO):
        assert len(ImageFolder(str(root), [6, 4], cache_dir=str(tmp_path / "taken")).load(1, 0).x) == 6
    assert "no cache of decoded images" in caplog.text
    assert "decoded 6 images" in caplog.text


def test_broken_images_are_named(root):
    (root / "train" / "cat" / "1.png").write_bytes(b"no image")
    whole = root / "train" / "dog" / "2.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(whole)
    whole.write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(ConfigError) as caught:
        ImageFolder(str(root), [6, 4]).load(1, 0)
    message = str(caught.value)
    assert "cannot read 2 of 7 images" in message
    assert os.path.join("train", "cat", "1.png") in message
    assert os.path.join("train", "dog", "2.jpg") in message
    assert not (root / ".impatient_cache").exists()


def test_a_decompression_bomb_is_refused(root, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 23)  # the images have 24
    with pytest.raises(ConfigError, match="decompression bomb"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


def test_pixels_are_counted_before_they_are_decoded(root):
    """A few kB that would be 250 MB."""
    Image.new("1", (9_000, 9_000)).save(root / "train" / "cat" / "1.png")
    with pytest.raises(ConfigError, match=r"1\.png \(9000 x 9000 pixels; more than 67,108,864 are not decoded\)"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


def test_a_name_does_not_open_other_formats(root):
    """Pillow goes by the content: PostScript, which Ghostscript would run, by any name."""
    path = root / "train" / "cat" / "1.png"
    Image.new("RGB", (4, 6)).save(path, format="EPS")
    with pytest.raises(ConfigError, match=r"1\.png \(cannot identify image file"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


def test_more_than_the_memory_is_refused_before_decoding(root, monkeypatch):
    monkeypatch.setattr("impatient.data.image_folder.free_bytes", lambda: 575)  # (6 + 2)·6·4·3 bytes are 576
    with pytest.raises(ConfigError, match=r"size=\[6, 4\]: 8 images of .* take 5\.76e-07 GB of memory"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


def test_of_large_images_one_is_decoded_at_a_time(root, monkeypatch):
    """Eight threads with 67 million pixels each would take 6 GB; small ones do run beside each other."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    busy, most, guard, real = 0, 0, threading.Lock(), ImageFile.ImageFile.load

    def load(image):
        nonlocal busy, most
        with guard:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        with guard:
            busy -= 1
        return real(image)

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    monkeypatch.setattr("impatient.data.image_folder.LARGE", 23)  # the images have 24 pixels
    monkeypatch.setattr(ImageFolder, "_keep", lambda *_: None)
    ImageFolder(str(root), [6, 4]).load(1, 0)
    assert most == 1
    monkeypatch.setattr("impatient.data.image_folder.LARGE", 10**6)
    ImageFolder(str(root), [6, 4]).load(1, 0)
    assert most > 1


def test_one_large_image_must_fit_the_memory_too(root, monkeypatch):
    monkeypatch.setattr("impatient.data.image_folder.LARGE", 999)
    Image.new("RGB", (40, 25)).save(root / "train" / "cat" / "1.png")
    monkeypatch.setattr("impatient.data.image_folder.free_bytes", lambda: 11_999)  # 12 bytes for each of 1000 pixels
    with pytest.raises(ConfigError, match=r"1\.png \(1,000 pixels; 0\.012 MB of memory are free"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


def test_a_file_that_is_too_long_is_not_read(root):
    """WebP's decoder reads all of a file before it looks at it. This one is a hole of 2 GB, some kB on the disk."""
    path = root / "train" / "cat" / "1.webp"
    Image.new("RGB", (4, 6)).save(path)
    os.truncate(path, 2**31)
    with pytest.raises(ConfigError, match=r"1\.webp \(2,147,483,648 bytes; more than 1,073,741,824 are not read"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


@pytest.mark.parametrize("target", ["x.png", "nowhere.png"])
def test_links_that_lead_nowhere_are_named(root, target):
    """A loop, and a file that was removed: passed over, an image would be missing without a word."""
    (root / "train" / "cat" / "x.png").symlink_to(root / "train" / "cat" / target)
    with pytest.raises(ConfigError, match=r"train/cat/x\.png cannot be read \("):
        ImageFolder(str(root), [6, 4]).load(1, 0)


def test_what_is_no_file_is_passed_over(root):
    os.mkfifo(root / "train" / "cat" / "pipe.png")
    (root / "train" / "cat" / "zero.png").symlink_to("/dev/zero")
    (root / "train" / "cat" / "folder.png").mkdir()
    assert len(ImageFolder(str(root), [6, 4]).load(1, 0).x) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"x": torch.zeros(6, 3, 6, 5, dtype=torch.uint8)},
        {"x": torch.zeros(6, 3, 6, 4)},
        {"y": torch.full((6,), 7)},
        {"y": torch.zeros(5, dtype=torch.int64)},
        {"x_test": None},
    ],
)
def test_a_cache_that_came_with_the_folder_is_looked_at(root, change, caplog):
    source = ImageFolder(str(root), [6, 4])
    first = source.load(1, 0)
    (cache,) = (root / ".impatient_cache").iterdir()
    torch.save({**torch.load(cache), **change}, cache)
    again = source.load(1, 0)
    assert "cannot read the cache" in caplog.text
    assert torch.equal(again.x, first.x)
    assert torch.equal(again.y, first.y)


def test_deep_images_are_refused(root):
    Image.fromarray(np.full((6, 4), 1000, dtype=np.uint16)).save(root / "test" / "cat" / "deep.png")
    with pytest.raises(ConfigError, match=r"deep\.png .*more than 8 bits"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


def test_folders_at_fault_are_named(root, tmp_path):
    with pytest.raises(ConfigError) as caught:
        ImageFolder(str(tmp_path / "none"), [6, 4]).load(1, 0)
    assert [fault.split(":")[0] for fault in caught.value.faults] == [
        str(tmp_path / "none" / p) for p in ("train", "test")
    ]
    paint(root / "test" / "emu" / "0.png")
    with pytest.raises(ConfigError, match="has classes that train/ lacks: emu"):
        ImageFolder(str(root), [6, 4]).load(1, 0)
    (root / "train" / "emu").mkdir()
    with pytest.raises(ConfigError, match=r"no images .* in: .*train.emu"):
        ImageFolder(str(root), [6, 4]).load(1, 0)
    paint(root / "train" / "fox" / "0.png")
    with pytest.raises(ConfigError, match="lacks classes of train/: fox"):
        ImageFolder(str(root), [6, 4]).load(1, 0)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"root": None}, "root=None"),
        ({"size": 32}, "size=32"),
        ({"size": [32]}, "size="),
        ({"size": [32, 0]}, "size="),
        ({"size": "ab"}, "size=ab"),
        ({"channels": 2}, "channels=2"),
        ({"mean": [0.5]}, "mean="),
        ({"std": [0.5, 0.5, -1]}, "std="),
        ({"cache_dir": 3}, "cache_dir=3"),
    ],
)
def test_arguments(change, fault):
    with pytest.raises(ConfigError, match=fault):
        ImageFolder(**{"root": "data", "size": [4, 4], **change})
