"""An autoencoder for images whose code is a short vector: strided convolutions, then Linear."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import nn

from proxlin._checks import check_count
from proxlin.errors import InvalidInputError
from proxlin.models.autoencoders import Activation, Autoencoder


def image_autoencoder(
    image: Sequence[int],
    code: int,
    *,
    channels: Sequence[int] = (8, 16),
    activation: Activation = nn.Softplus,
    output: Activation = nn.Identity,
) -> Autoencoder:
    """Halve the sides of a (c, h, w) image with each of `channels`, then one Linear to the code.

    A kernel is 4 along an even side and 3 along an odd one, at stride 2, so that the way back
    meets the same sizes for every image: 28 -> 13 -> 6. The code and the output are linear. Sides
    that are too short for all of `channels` take as many as they have room for, perhaps none.

    >>> net = image_autoencoder((1, 28, 28), 10)
    >>> [tuple(t.shape) for t in net.encoder.parameters() if t.ndim > 1]
    [(8, 1, 4, 4), (16, 8, 3, 3), (10, 576)]
    """
    if len(image) != 3:
        raise InvalidInputError(f"image must be (channels, height, width); got {tuple(image)}.")
    before, height, width = (check_count("image[...]", size) for size in image)
    check_count("code", code)
    for size in channels:
        check_count("channels[...]", size)
    down: list[nn.Module] = []
    up: list[nn.Module] = [output()]
    for after in channels:
        kernel = (3 + (height + 1) % 2, 3 + (width + 1) % 2)
        if height < kernel[0] or width < kernel[1]:
            break
        down += [nn.Conv2d(before, after, kernel, stride=2), activation()]
        up = [activation(), nn.ConvTranspose2d(after, before, kernel, stride=2), *up]
        before, height, width = after, (height - kernel[0]) // 2 + 1, (width - kernel[1]) // 2 + 1
    flat = prod((before, height, width))
    down += [nn.Flatten(), nn.Linear(flat, code)]
    up = [nn.Linear(code, flat), nn.Unflatten(1, (before, height, width)), *up]
    return Autoencoder(nn.Sequential(*down), nn.Sequential(*up))
