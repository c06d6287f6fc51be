"""A folder of images, with labels from the names of its folders."""

import os
import pickle

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


def test_sixteen_bits_become_eight(tmp_path):
    tmp_path.joinpath("scans").mkdir()
    Image.fromarray(np.array([[0, 256, 32768, 65535]], np.uint16)).save(tmp_path / "scans" / "1.png")
    pixels = ImageFolderDataSource(tmp_path)[0]["image"]
    assert (pixels.dtype, pixels.tolist()) == (np.uint8, [[[grey] * 3 for grey in (0, 1, 128, 255)]])


def test_a_palette_with_transparency_and_pixels_that_can_be_changed(tmp_path):
    tmp_path.joinpath("icons").mkdir()
    icon = Image.new("P", (2, 1))
    icon.putpalette([9, 8, 7, 1, 2, 3])
    icon.putpixel((1, 0), 1)
    icon.save(tmp_path / "icons" / "1.png", transparency=b"\0\1")
    pixels = ImageFolderDataSource(tmp_path)[0]["image"]
    pixels[0, 0] += 1
    assert pixels.tolist() == [[[10, 9, 8], [1, 2, 3]]]
