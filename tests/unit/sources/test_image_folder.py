"""A folder of images, with labels from the names of its folders."""

import os
import pickle
import struct

import numpy as np
import pytest
from PIL import Image

import grain
from grain import ImageFolderDataSource, MultiprocessingOptions


def picture(path, color, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (3, 2), color).save(path)


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(["dog/1.png", "cat/2.PNG", "cat/10.png", "cat/more/1.png", "ant/a.bmp"]):
        picture(tmp_path / name, (number, 0, 0))
    tmp_path.joinpath("cat", "notes.txt").write_text("no picture")
    picture(tmp_path / "above.png", (9, 9, 9))
    tmp_path.joinpath("empty").mkdir()
    return tmp_path


def test_images_and_labels(folder):
    source = ImageFolderDataSource(folder)
    assert source.classes == ("ant", "cat", "dog")
    assert [record["label"] for record in grain.MapDataset.source(source)] == [0, 1, 1, 1, 2]
    assert [int(record["image"][0, 0, 0]) for record in source.__getitems__(range(5))] == [4, 2, 1, 3, 0]
    image = source[-1]["image"]
    assert (image.shape, image.dtype) == ((2, 3, 3), np.uint8)
    assert repr(source) == f"ImageFolderDataSource({str(folder)!r})"
    with pytest.raises(IndexError, match="Index 5 out of range for 5 records"):
        source[5]


def test_bytes_of_images(folder):
    source = ImageFolderDataSource(str(folder) + "/", decode=False)
    assert source[4] == {"image": folder.joinpath("dog", "1.png").read_bytes(), "label": 2}


def test_images_of_all_kinds_have_three_colors(tmp_path):
    for mode, color in [("L", 5), ("P", 1), ("RGBA", (1, 2, 3, 4)), ("1", 1)]:
        picture(tmp_path / "x" / f"{mode}.png", color, mode)
    batch = next(iter(grain.MapDataset.source(ImageFolderDataSource(tmp_path)).batch(4)))
    assert batch["image"].shape == (4, 2, 3, 3)


def test_a_damaged_image_names_its_path_and_the_others_are_read(folder):
    bad = folder / "cat" / "2.PNG"
    bad.write_bytes(bad.read_bytes()[:40])
    source = ImageFolderDataSource(folder)
    with pytest.raises(ValueError, match=r"cat/2\.PNG cannot be read as a picture: "):
        source[2]
    assert source[3]["label"] == 1


def test_a_picture_that_is_said_to_be_huge_is_refused_before_there_is_room_for_it(tmp_path):
    path = tmp_path / "cat" / "1.gif"
    picture(path, 1, "P")
    content = path.read_bytes()
    path.write_bytes(content[:6] + (9000).to_bytes(2, "little") * 2 + content[10:])
    with pytest.raises(ValueError, match=r"cat/1\.gif cannot be read as a picture: .* 9000 x 9000 pixels, and has \d+"):
        ImageFolderDataSource(tmp_path)[0]


@pytest.mark.parametrize(("extension", "mode"), [("png", "1"), ("gif", "P"), ("webp", "RGB"), ("jpg", "L")])
def test_large_pictures_of_one_color_are_read(extension, mode, tmp_path):
    path = tmp_path / "cat" / f"1.{extension}"
    path.parent.mkdir()
    Image.new(mode, (4000, 5000), 1).save(path)
    assert ImageFolderDataSource(tmp_path)[0]["image"].shape == (5000, 4000, 3)


def test_an_image_that_is_gone(folder):
    source = ImageFolderDataSource(folder)
    os.unlink(folder / "dog" / "1.png")
    with pytest.raises(FileNotFoundError, match=r"dog/1\.png"):
        source[4]


def test_a_folder_without_images_or_none_at_all(tmp_path):
    picture(tmp_path / "above.png", 0)
    with pytest.raises(ValueError, match="No pictures in sub-folders of"):
        ImageFolderDataSource(tmp_path)
    with pytest.raises(NotADirectoryError, match="which is not there"):
        ImageFolderDataSource(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError, match="which is a file"):
        ImageFolderDataSource(tmp_path / "above.png")


def test_in_workers(folder):
    source = ImageFolderDataSource(folder)
    assert pickle.loads(pickle.dumps(source))[0]["label"] == 0
    dataset = grain.MapDataset.source(source).to_iter_dataset()
    found = list(dataset.mp_prefetch(MultiprocessingOptions(num_workers=2)))
    assert [(int(record["image"][0, 0, 0]), record["label"]) for record in found] == [
        (4, 0),
        (2, 1),
        (1, 1),
        (3, 1),
        (0, 2),
    ]


def test_hidden_files_and_folders_are_no_pictures(tmp_path):
    for name in ("cat/1.png", "cat/._1.png", ".checkpoints/1.png", "cat/.old/1.png"):
        tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    source = ImageFolderDataSource(tmp_path)
    assert (len(source), source.classes) == (1, ("cat",))


def pixels_of(folder, name, content):
    folder.joinpath("scans").mkdir()
    if isinstance(content, bytes):
        folder.joinpath("scans", name).write_bytes(content)
    else:
        image = content if isinstance(content, Image.Image) else Image.fromarray(content)
        image.save(folder / "scans" / name)
    pixels = ImageFolderDataSource(folder)[0]["image"]
    assert pixels.dtype == np.uint8
    return pixels


def tiff(pixels, bits, sample_format, photometric=1):
    """A grey TIFF file of one row, with any type of pixels."""
    entries = [
        (256, 4, len(pixels) * 8 // bits),
        (257, 4, 1),
        (258, 3, bits),
        (259, 3, 1),
        (262, 3, photometric),
        (273, 4, 8),
        (277, 3, 1),
        (278, 4, 1),
        (279, 4, len(pixels)),
        (339, 3, sample_format),
    ]
    padded = pixels + bytes(len(pixels) % 2)
    folder = struct.pack("<H", len(entries)) + b"".join(
        struct.pack("<HHII", tag, kind, 1, n) for tag, kind, n in entries
    )
    return b"II*\0" + struct.pack("<I", 8 + len(padded)) + padded + folder + bytes(4)


STEPS = [0, 1, 128, 255]
SIXTEEN = np.array([[0, 256, 32768, 65535]], np.uint16)
UNSIGNED, SIGNED, FLOAT = 1, 2, 3


PICTURES = {
    "16-bit PNG": ("1.png", SIXTEEN),
    "16-bit TIFF": ("1.tif", SIXTEEN),
    "16-bit TIFF, big-endian": ("1.tif", Image.fromarray(SIXTEEN.astype(">u2"))),
    "16-bit PGM": ("1.pgm", b"P5 4 1 65535\n" + SIXTEEN.astype(">u2").tobytes()),
    "16-bit PGM of text": ("1.pgm", b"P2 4 1 65535\n0 256 32768 65535\n"),
    "10-bit PGM": ("1.pgm", b"P5 4 1 1023\n" + np.array([0, 4, 514, 1023], ">u2").tobytes()),
    "12-bit TIFF": ("1.tif", tiff(bytes.fromhex("000010800fff"), 12, UNSIGNED)),
    "signed 16-bit TIFF": ("1.tif", tiff(np.array([0, 128, 16384, 32767], "<i2").tobytes(), 16, SIGNED)),
    "32-bit TIFF": ("1.tif", np.array([[0, 1 << 23, 1 << 30, (1 << 31) - 1]], np.int32)),
    "unsigned 32-bit TIFF": (
        "1.tif",
        tiff(np.array([0, 1 << 24, 1 << 31, (1 << 32) - 1], "<u4").tobytes(), 32, UNSIGNED),
    ),
    "TIFF of floats": ("1.tif", np.array([[0, 1 / 256, 0.5, 1]], np.float32)),
    "PFM": ("1.pgm", b"Pf\n4 1\n-1.0\n" + np.array([0, 1 / 256, 0.5, 1], "<f4").tobytes()),
    "16-bit TIFF whose zero is white": (
        "1.tif",
        tiff((65535 - SIXTEEN).astype("<u2").tobytes(), 16, UNSIGNED, photometric=0),
    ),
    "8-bit TIFF whose zero is white": ("1.tif", tiff(bytes([255, 254, 127, 0]), 8, UNSIGNED, photometric=0)),
    "grey": ("1.png", np.array([STEPS], np.uint8)),
    "grey with transparency": ("1.png", np.array([[[grey, 7] for grey in STEPS]], np.uint8)),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_all_numbers_of_bits_are_scaled_by_one_rule(tmp_path, kind):
    assert pixels_of(tmp_path, *PICTURES[kind]).tolist() == [[[grey] * 3 for grey in STEPS]]


@pytest.mark.parametrize(
    ("mode", "color", "expected"),
    [
        ("1", 1, [255, 255, 255]),
        ("P", 1, [4, 5, 6]),
        ("PA", (1, 9), [4, 5, 6]),
        ("CMYK", (0, 255, 255, 0), [255, 0, 0]),
        ("RGBA", (1, 2, 3, 4), [1, 2, 3]),
        ("YCbCr", (255, 128, 128), [255, 255, 255]),
    ],
)
def test_pixels_of_other_modes(tmp_path, mode, color, expected):
    image = Image.new(mode, (1, 1), color)
    if mode.startswith("P"):
        image.putpalette([1, 2, 3, 4, 5, 6])
    assert pixels_of(tmp_path, "1.tif", image).tolist() == [[expected]]


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.array([[0.0, 1.5]], np.float32), "floats beyond 0 and 1"),
        (np.array([[0.0, -0.5]], np.float32), "floats beyond 0 and 1"),
        (np.array([[0.0, np.nan]], np.float32), "floats beyond 0 and 1"),
        (np.array([[0, -1]], np.int32), "negative numbers"),
    ],
)
def test_pixels_that_no_rule_makes_grey(tmp_path, pixels, message):
    with pytest.raises(ValueError, match=rf"scans/1\.tif cannot be read as a picture: .*{message}.*decode=False"):
        pixels_of(tmp_path, "1.tif", pixels)


def test_a_palette_with_transparency_and_pixels_that_can_be_changed(tmp_path):
    tmp_path.joinpath("icons").mkdir()
    icon = Image.new("P", (2, 1))
    icon.putpalette([9, 8, 7, 1, 2, 3])
    icon.putpixel((1, 0), 1)
    icon.save(tmp_path / "icons" / "1.png", transparency=b"\0\1")
    pixels = ImageFolderDataSource(tmp_path)[0]["image"]
    pixels[0, 0] += 1
    assert pixels.tolist() == [[[10, 9, 8], [1, 2, 3]]]


@pytest.mark.parametrize(
    "links", [{"cat/up": ".."}, {"cat/up": "..", "dog/up": ".."}, {"cat/self": ".", "dog/c": "../cat"}]
)
def test_links_in_circles(folder, links):
    for link, target in links.items():
        os.symlink(target, folder / link)
    source = ImageFolderDataSource(folder)
    assert source.classes == ("ant", "cat", "dog")
    assert [source[number]["label"] for number in range(len(source))] == [0, 1, 1, 1, 2]
