"""Autoencoders: the paper's small net, and general ones for images and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from proxlin._checks import check_count, check_layers
from proxlin.errors import InvalidInputError
from proxlin.terms import Constraint, Tied

Activation = Callable[[], nn.Module]


class Autoencoder(nn.Module):
    """x -> decoder(encoder(x)); the two halves mirror each other layer by layer."""

    def __init__(self, encoder: nn.Sequential, decoder: nn.Sequential) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction of x, in the shape of x."""
        reconstruction: Tensor = self.decoder(self.encoder(x))
        return reconstruction

    def tied(self) -> Constraint:
        """The constraint that each decoder weight equals its encoder weight, transposed if linear.

        Use it as `Problem(net, x, constraint=net.tied())`. The halves stay separate parameters; it
        is the projection that keeps them equal (stacked denoising autoencoders).
        """
        encoder = _weights("encoder", self.encoder)
        decoder = _weights("decoder", self.decoder)[::-1]
        if not encoder or len(encoder) != len(decoder):
            raise InvalidInputError(
                "tied() needs as many layers with weights in the decoder as in the encoder, at"
                f" least one; got {len(encoder)} and {len(decoder)}."
            )
        pairs = [
            Tied(first, second, transposed=isinstance(layer, nn.Linear))
            for (first, layer), (second, _) in zip(encoder, decoder, strict=True)
        ]
        constraint: Constraint = pairs[0]
        for pair in pairs[1:]:
            constraint = constraint & pair
        return constraint


def paper_autoencoder() -> Autoencoder:
    """The paper's net for 28 x 28 images (App. F): 741 parameters, softplus after each layer.

    The code has 4 x 24 x 24 numbers, more than the image: it is a test bed, not a compressor.
    """
    return conv_autoencoder(channels=(1, 8, 4), kernel=3, output=nn.Softplus)


def conv_autoencoder(
    channels: Sequence[int] = (1, 16, 32),
    *,
    kernel: int = 3,
    stride: int = 1,
    activation: Activation = nn.Softplus,
    output: Activation = nn.Identity,
) -> Autoencoder:
    """Convolutions through `channels` and transposed convolutions back.

    With a stride s > 1, sides must satisfy (side - kernel) % s == 0 at every layer, so that the
    way back meets the same sizes.
    """
    steps = _steps("channels", channels)
    check_count("kernel", kernel)
    check_count("stride", stride)
    down: list[nn.Module] = []
    for before, after in steps:
        down += [nn.Conv2d(before, after, kernel, stride), activation()]
    up: list[nn.Module] = []
    for before, after in reversed(steps):
        up += [nn.ConvTranspose2d(after, before, kernel, stride), activation()]
    up[-1] = output()
    return Autoencoder(nn.Sequential(*down), nn.Sequential(*up))


def mlp_autoencoder(
    widths: Sequence[int],
    *,
    activation: Activation = nn.Softplus,
    output: Activation = nn.Identity,
    image: Sequence[int] | None = None,
) -> Autoencoder:
    """Linear layers through `widths` (the input first, the code last) and back.

    With `image=(c, h, w)` it takes and returns images instead of vectors.
    """
    steps = _steps("widths", widths)
    check_layers("widths", widths)
    if image is not None and prod(image) != widths[0]:
        raise InvalidInputError(
            f"widths[0] must be the number of pixels of image={tuple(image)}, {prod(image)};"
            f" got {widths[0]}."
        )
    down: list[nn.Module] = [] if image is None else [nn.Flatten()]
    for before, after in steps:
        down += [nn.Linear(before, after), activation()]
    up: list[nn.Module] = []
    for before, after in reversed(steps):
        up += [nn.Linear(after, before), activation()]
    up[-1] = output()
    if image is not None:
        up.append(nn.Unflatten(1, tuple(image)))
    return Autoencoder(nn.Sequential(*down), nn.Sequential(*up))


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
    check_layers("code", (flat, code))
    down += [nn.Flatten(), nn.Linear(flat, code)]
    up = [nn.Linear(code, flat), nn.Unflatten(1, (before, height, width)), *up]
    return Autoencoder(nn.Sequential(*down), nn.Sequential(*up))


def _steps(name: str, sizes: Sequence[int]) -> list[tuple[int, int]]:
    if len(sizes) < 2:
        raise InvalidInputError(f"{name} must name at least two sizes; got {tuple(sizes)}.")
    return list(pairwise(check_count(f"{name}[...]", size) for size in sizes))


def _weights(prefix: str, half: nn.Sequential) -> list[tuple[str, nn.Module]]:
    return [
        (f"{prefix}.{name}.weight", layer)
        for name, layer in half.named_children()
        if getattr(layer, "weight", None) is not None
    ]
