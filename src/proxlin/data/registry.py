"""The data sets that can be loaded: what they are, their files, and where these can be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
FASHION_MIRRORS = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
MULAN = "https://raw.githubusercontent.com/tsoumakas/mulan/"
MULAN_PAGE = "https://mulan.sourceforge.net/datasets-mtr.html"
MULAN_LICENCE = "none stated; cite Spyromitros-Xioufis et al., Machine Learning, 2016"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file, the checksum of its uncompressed content, and the addresses that serve it."""

    path: str  # below a data folder, without .gz; the file may be there plain or gzipped
    sha256: str | None = None  # of the uncompressed content; None: not known
    urls: tuple[str, ...] = ()  # plain or gzipped; only for a file whose sha256 is known
    page: str = ""  # where a user can get the file, if it has no address for downloads
    note: str = ""  # what a user must know about this file

    def __post_init__(self) -> None:
        if self.urls and self.sha256 is None:
            raise ValueError(f"{self.path}: what is downloaded must have a known sha256; got None.")


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """One data set, as `list_datasets` shows it."""

    name: str
    description: str
    kind: Literal["embedded", "images", "table"]
    rows: int  # train and test together
    features: int
    targets: int  # columns of y for a table, classes for images
    licence: str
    files: tuple[DataFile, ...] = ()  # images: the four IDX files; table: alternatives, best first
    target_names: tuple[str, ...] = ()
    system_folder: str | None = None  # same layout as a data folder
    system_package: str | None = None

    @property
    def where(self) -> tuple[str, ...]:
        """Where the data set can be had, in the order in which `load_dataset` looks."""
        if not self.files:
            return ("embedded in scikit-learn",)
        places = ["the folder PROXLIN_DATA", "the cache"]
        if self.system_folder is not None:
            places.append(f"the system package {self.system_package}")
        hosts = [url.split("/")[2] for file in self.files[:1] for url in file.urls]
        places += [f"download from {host}" for host in hosts]
        places += [f"by hand from {file.page}" for file in self.files if file.page]
        return tuple(places)


def _idx_files(
    folder: str, mirrors: tuple[str, ...], checksums: tuple[str, ...]
) -> tuple[DataFile, ...]:
    names = (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )
    return tuple(
        DataFile(
            path=f"{folder}/{name}",
            sha256=checksum,
            urls=tuple(f"{mirror}{name}.gz" for mirror in mirrors),
        )
        for name, checksum in zip(names, checksums, strict=True)
    )


def _mulan_table(
    name: str,
    description: str,
    *,
    rows: int,
    features: int,
    target_names: tuple[str, ...],
    sha256: str,
    commit: str | None,
) -> DatasetEntry:
    urls = () if commit is None else (f"{MULAN}{commit}/data/multi-target/{name}.arff",)
    page = "" if urls else MULAN_PAGE
    file = DataFile(path=f"multi-target/{name}.arff", sha256=sha256, urls=urls, page=page)
    return DatasetEntry(
        name=name,
        description=description,
        kind="table",
        rows=rows,
        features=features,
        targets=len(target_names),
        licence=MULAN_LICENCE,
        files=(file,),
        target_names=target_names,
    )


_ENTRIES = (
    DatasetEntry(
        name="digits",
        description="handwritten digits, 8 x 8 pixels",
        kind="embedded",
        rows=1797,
        features=64,
        targets=10,
        licence="CC BY 4.0 (Alpaydin, Kaynak; UCI)",
        target_names=tuple("0123456789"),
    ),
    DatasetEntry(
        name="mnist",
        description="handwritten digits, 28 x 28 pixels",
        kind="images",
        rows=70_000,
        features=784,
        targets=10,
        licence="CC BY-SA 3.0 (LeCun, Cortes, Burges)",
        files=_idx_files(
            "mnist",
            MNIST_MIRRORS,
            (
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
        target_names=tuple("0123456789"),
    ),
    DatasetEntry(
        name="fashion-mnist",
        description="photographs of clothes, 28 x 28 pixels",
        kind="images",
        rows=70_000,
        features=784,
        targets=10,
        licence="MIT (Zalando)",
        files=_idx_files(
            "fashion-mnist",
            FASHION_MIRRORS,
            (
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
        ),
        target_names=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        system_folder="/usr/share/datasets",
        system_package="dataset-fashion-mnist (Debian)",
    ),
    DatasetEntry(
        name="scm1d",
        description="prices of products one day ahead in a supply chain game",
        kind="table",
        rows=9803,
        features=280,
        targets=16,
        licence=MULAN_LICENCE,
        files=(
            DataFile(path="multi-target/scm1d.arff", page="https://www.openml.org/d/41485"),
            DataFile(
                path="multi-target/scm1d-reconstructed.csv",
                sha256="53eb940bc2eb59ff3d5a5b4f60ea5f99e509bcc696c556a91fcf4dabf8275259",
                note="SCM1d (reconstructed): put together from public subsets, the data's own lag"
                " columns and SCM20d; not an original file.",
            ),
        ),
        target_names=("LBL", *(f"MTLp{i}" for i in range(2, 17))),
    ),
    _mulan_table(
        "rf1",
        "river flows of the Mississippi network 48 hours ahead",
        rows=9125,
        features=64,
        target_names=tuple(
            f"{site}_48H__0"
            for site in (
                *("CHSI2", "NASI2", "EADM7", "SCLM7"),
                *("CLKM7", "VALI2", "NAPM7", "DLDI4"),
            )
        ),
        sha256="994f9e334811e040d2002e46d3ce06504e5d441249bf65448f53d6ea24b33cf0",
        commit=None,
    ),
    _mulan_table(
        "atp1d",
        "airline ticket prices on the next day",
        rows=337,
        features=411,
        target_names=tuple(
            f"LBL+{flight}+fut_001"
            for flight in (
                *("ALLminpA", "ALLminp0", "aDLminpA"),
                *("aCOminpA", "aFLminpA", "aUAminpA"),
            )
        ),
        sha256="ed935ba476c4994ba40d6712d590fb389709cceba7cf7dbbb33ef28c84762bb9",
        commit="122fce8fbefdb292ba3acbb03867a7fc8f1dcaa9",
    ),
    _mulan_table(
        "oes97",
        "employees by occupation in cities of the United States, 1997",
        rows=334,
        features=263,
        target_names=(
            "58028_Shipping__Receiving__and_Traffic_Clerks",
            "15014_Industrial_Production_Managers",
            "32511_Physician_Assistants",
            "15017_Construction_Managers",
            "98502_Machine_Feeders_and_Offbearers",
            "92965_Crushing__Grinding__Mixing__and_Blending_Machine_Operators_and_Tenders",
            "32314_Speech-Language_Pathologists_and_Audiologists",
            "13008_Purchasing_Managers",
            "21114_Accountants_and_Auditors",
            "85110_Machinery_Maintenance_Mechanics",
            "27311_Recreation_Workers",
            "98902_Hand_Packers_and_Packagers",
            "65032_Cooks__Fast_Food",
            "92998_All_Other_Machine_Operators_and_Tenders",
            "27108_Psychologists",
            "53905_Teacher_Aides_and_Educational_Assistants__Clerical",
        ),
        sha256="aee74aa656c709f797f45d817c41996be94c2e924c0f1e7ad315fb7e2f1a9498",
        commit="122fce8fbefdb292ba3acbb03867a7fc8f1dcaa9",
    ),
    _mulan_table(
        "enb",
        "heating and cooling load of buildings",
        rows=768,
        features=8,
        target_names=("Y1", "Y2"),
        sha256="8277d9094ccda6da2cd1c2b79c90ca201fa3695e75aca173ffc43138dcab0071",
        commit="49efcccb0666c59f57d942c13c6184af028c7650",
    ),
    _mulan_table(
        "jura",
        "heavy metals in the soil of the Swiss Jura",
        rows=359,
        features=15,
        target_names=("Cd", "Co", "Cu"),
        sha256="78ce7655f49073e3622ef7ba25657b3900a2b279ba3d48cb82e353e56bac3d2a",
        commit="122fce8fbefdb292ba3acbb03867a7fc8f1dcaa9",
    ),
    _mulan_table(
        "andro",
        "water quality of the Thermaikos gulf five days ahead",
        rows=49,
        features=30,
        target_names=("Target", *(f"Target_{i}" for i in range(2, 7))),
        sha256="08f0e2757b2a7635136ac58ea76c4e801ffeb0a81116b29e6ac169228c8aa132",
        commit="49efcccb0666c59f57d942c13c6184af028c7650",
    ),
)

REGISTRY: dict[str, DatasetEntry] = {entry.name: entry for entry in _ENTRIES}


def list_datasets() -> list[DatasetEntry]:
    """Every data set that `load_dataset` knows, with its size, licence and where it can be had."""
    return list(REGISTRY.values())
