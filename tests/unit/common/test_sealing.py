from __future__ import annotations

import base64
import os
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from joserfc.jwk import ECKey

from services.common.errors import InvalidConfiguration, Permanent
from services.common.sealing import (
    NoKey,
    OpeningKeys,
    SealingKeys,
    SecretContext,
    Unbound,
    Unopenable,
    generate_key,
    key_id_of,
    key_ids_of,
    write_keys,
)
from services.common.sealing.jwk_sets import CURVE
from services.common.secret_use import SecretUse

CONTEXT = SecretContext("local", "team-a", "kube", "managed-gitops.redhat.com/managed-environment")
CONTENT = "PLANTED-CONTENT"
DATA = {"kubeconfig": base64.b64encode(CONTENT.encode()).decode(), "empty": ""}


class Files:
    """A pair of key files as `gitopsctl keys` writes them."""

    def __init__(self, folder: Path) -> None:
        self.public, self.private = folder / "public.json", folder / "private.json"

    def write(self, *keys: ECKey, active: ECKey | None = None) -> None:
        by_id = {str(key.kid): key for key in keys}
        write_keys(self.private, by_id, private=True)
        first = active or keys[0]
        write_keys(self.public, {str(first.kid): first} | by_id, private=False)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_open_when_sealed_for_the_same_context_then_the_values_come_back(files: Files) -> None:
    files.write(generate_key())

    sealed = SealingKeys.load(files.public).seal_secret(DATA, CONTEXT)

    assert OpeningKeys.load(files.private).open_secret(sealed, CONTEXT) == {
        "kubeconfig": CONTENT.encode(),
        "empty": b"",
    }


def test_seal_when_done_twice_then_the_texts_differ_and_show_nothing(files: Files) -> None:
    files.write(generate_key())
    keys = SealingKeys.load(files.public)

    first, second = keys.seal_secret(DATA, CONTEXT), keys.seal_secret(DATA, CONTEXT)

    assert first != second
    assert CONTENT not in first
    assert DATA["kubeconfig"] not in first


def test_open_when_the_content_is_as_large_as_a_secret_may_be_then_it_opens(files: Files) -> None:
    files.write(generate_key())
    large = {"kubeconfig": base64.b64encode(b"x" * 1024 * 1024).decode()}

    sealed = SealingKeys.load(files.public).seal_secret(large, CONTEXT)

    assert len(OpeningKeys.load(files.private).open_secret(sealed, CONTEXT)["kubeconfig"]) == 1024 * 1024


def test_seal_when_every_part_of_the_context_is_as_long_as_may_be_then_it_opens(files: Files) -> None:
    files.write(generate_key())
    context = SecretContext("w" * 128, "n" * 63, "s" * 253, CONTEXT.type)

    sealed = SealingKeys.load(files.public).seal_secret(DATA, context)

    assert OpeningKeys.load(files.private).open_secret(sealed, context)


@pytest.mark.parametrize(
    "other",
    [
        SecretContext("other", "team-a", "kube", CONTEXT.type),
        SecretContext("local", "team-b", "kube", CONTEXT.type),
        SecretContext("local", "team-a", "other", CONTEXT.type),
        SecretContext("local", "team-a", "kube", "managed-gitops.redhat.com/repository-credential"),
    ],
    ids=["workspace", "namespace", "name", "type"],
)
def test_open_when_the_context_is_another_then_it_is_refused(files: Files, other: SecretContext) -> None:
    files.write(generate_key())
    sealed = SealingKeys.load(files.public).seal_secret(DATA, CONTEXT)

    with pytest.raises(Unopenable, match="another Secret"):
        OpeningKeys.load(files.private).open_secret(sealed, other)


def test_open_when_the_namespace_was_made_again_then_what_was_sealed_before_does_not_open(files: Files) -> None:
    files.write(generate_key())
    former, latter = replace(CONTEXT, namespace_uid="former"), replace(CONTEXT, namespace_uid="latter")
    sealing, opening = SealingKeys.load(files.public), OpeningKeys.load(files.private)
    sealed = sealing.seal_secret(DATA, former)

    assert opening.open_secret(sealed, former)
    with pytest.raises(Unopenable, match="another Secret"):
        opening.open_secret(sealed, latter)
    # It is of before watchers told of namespaces.
    assert opening.open_secret(sealing.seal_secret(DATA, CONTEXT), former)


def test_open_when_sealed_for_a_namespace_and_asked_for_none_then_it_is_refused(files: Files) -> None:
    files.write(generate_key())
    sealed = SealingKeys.load(files.public).seal_secret(DATA, replace(CONTEXT, namespace_uid="former"))

    with pytest.raises(Unopenable, match="another Secret"):
        OpeningKeys.load(files.private).open_secret(sealed, CONTEXT)


USE = SecretUse("https://git.example.com/team-a/app", '{"skipsTLSVerification":false}')


def test_binding_when_it_is_for_this_use_then_the_secret_opens(files: Files) -> None:
    files.write(generate_key())
    sealing, opening = SealingKeys.load(files.public), OpeningKeys.load(files.private)
    sealed, binding = sealing.seal_secret(DATA, CONTEXT), sealing.seal_binding(DATA, USE, CONTEXT)

    assert opening.open_secret_for(USE, sealed, binding, CONTEXT)["kubeconfig"] == CONTENT.encode()
    assert USE.url not in binding
    assert len(binding) < 2000


FORGED: dict[str, tuple[dict[str, str], SecretUse, SecretContext, str]] = {
    "another-url": (DATA, SecretUse("https://attacker.example.com", USE.terms), CONTEXT, "given for another URL"),
    "other-terms": (DATA, SecretUse(USE.url, '{"skipsTLSVerification":true}'), CONTEXT, "on other terms"),
    "another-content": ({"kubeconfig": "eA=="}, USE, CONTEXT, "said of another content"),
    "another-tenant": (DATA, USE, replace(CONTEXT, namespace="team-b"), "another Secret"),
    "another-secret": (DATA, USE, replace(CONTEXT, name="other"), "another Secret"),
}


@pytest.mark.parametrize(("data", "use", "context", "why"), FORGED.values(), ids=FORGED)
def test_binding_when_it_is_of_something_else_then_the_secret_stays_closed(
    files: Files, data: dict[str, str], use: SecretUse, context: SecretContext, why: str
) -> None:
    files.write(generate_key())
    sealing, opening = SealingKeys.load(files.public), OpeningKeys.load(files.private)
    sealed, binding = sealing.seal_secret(DATA, CONTEXT), sealing.seal_binding(data, use, context)

    with pytest.raises(Unopenable, match=why):
        opening.open_secret_for(USE, sealed, binding, CONTEXT)


def test_binding_when_there_is_none_or_a_secret_in_its_place_then_the_secret_stays_closed(files: Files) -> None:
    files.write(generate_key())
    sealing, opening = SealingKeys.load(files.public), OpeningKeys.load(files.private)
    sealed, binding = sealing.seal_secret(DATA, CONTEXT), sealing.seal_binding(DATA, USE, CONTEXT)

    with pytest.raises(Unbound):
        opening.open_secret_for(USE, sealed, "", CONTEXT)
    with pytest.raises(Unopenable, match="another Secret"):
        opening.open_secret_for(USE, sealed, sealed, CONTEXT)
    with pytest.raises(Unopenable, match="another Secret"):
        opening.open_secret(binding, CONTEXT)


def test_binding_when_sealed_under_another_key_then_it_says_the_same(files: Files) -> None:
    files.write(generate_key())
    sealing, opening = SealingKeys.load(files.public), OpeningKeys.load(files.private)
    sealed, binding = sealing.seal_secret(DATA, CONTEXT), sealing.seal_binding(DATA, USE, CONTEXT)
    again = sealing.seal_binding_again(opening.open_binding(binding, CONTEXT), CONTEXT)

    assert again != binding
    assert opening.open_secret_for(USE, sealed, again, CONTEXT)


def test_open_when_the_header_was_changed_to_fit_then_it_is_refused(files: Files) -> None:
    files.write(generate_key())
    header, *rest = SealingKeys.load(files.public).seal_secret(DATA, CONTEXT).split(".")
    content = orjson.loads(base64.urlsafe_b64decode(header + "=="))
    content["ctx"]["namespace"] = "team-b"
    forged = ".".join([base64.urlsafe_b64encode(orjson.dumps(content)).decode().rstrip("="), *rest])

    with pytest.raises(Unopenable, match="damaged"):
        OpeningKeys.load(files.private).open_secret(forged, SecretContext("local", "team-b", "kube", CONTEXT.type))


def test_open_when_the_header_asks_for_compression_then_it_is_refused(files: Files) -> None:
    files.write(generate_key())
    header, *rest = SealingKeys.load(files.public).seal_secret(DATA, CONTEXT).split(".")
    content = orjson.loads(base64.urlsafe_b64decode(header + "==")) | {"zip": "DEF"}
    forged = ".".join([base64.urlsafe_b64encode(orjson.dumps(content)).decode().rstrip("="), *rest])

    with pytest.raises(Unopenable, match="damaged"):
        OpeningKeys.load(files.private).open_secret(forged, CONTEXT)


def test_open_when_the_key_is_unknown_then_the_error_names_it(files: Files, tmp_path: Path) -> None:
    files.write(generate_key())
    sealed = SealingKeys.load(files.public).seal_secret(DATA, CONTEXT)
    others = Files(tmp_path / "others")
    others.public.parent.mkdir()
    others.write(generate_key())

    with pytest.raises(Unopenable, match=key_id_of(sealed)):
        OpeningKeys.load(others.private).open_secret(sealed, CONTEXT)


@pytest.mark.parametrize("part", range(1, 5))
def test_open_when_a_part_is_damaged_then_it_is_refused_without_content(files: Files, part: int) -> None:
    files.write(generate_key())
    parts = SealingKeys.load(files.public).seal_secret(DATA, CONTEXT).split(".")
    parts[part] = ("A" if parts[part][0] != "A" else "B") + parts[part][1:]

    with pytest.raises(Unopenable, match="damaged") as refused:
        OpeningKeys.load(files.private).open_secret(".".join(parts), CONTEXT)

    assert refused.value.__context__ is None


@pytest.mark.parametrize("text", ["", "no", "....", "e30....", "bm8.x.y.z.q", "\udcff", "Ww.a.b.c.d"])
def test_key_id_when_the_text_is_not_sealed_then_it_is_refused(text: str) -> None:
    with pytest.raises(Unopenable, match="not a sealed text"):
        key_id_of(text)


@pytest.mark.parametrize("data", [{"k": CONTENT + "!"}, {"k": None}], ids=["not base64", "not text"])
def test_open_when_the_values_are_not_those_of_a_secret_then_the_error_holds_nothing_of_them(
    files: Files, data: dict[str, str]
) -> None:
    files.write(generate_key())
    sealed = SealingKeys.load(files.public).seal_secret(data, CONTEXT)

    with pytest.raises(Unopenable) as refused:
        OpeningKeys.load(files.private).open_secret(sealed, CONTEXT)

    assert isinstance(refused.value, Permanent)
    assert CONTENT not in repr(refused.value)
    assert refused.value.__context__ is None


def test_keys_when_represented_then_only_their_ids_show(files: Files) -> None:
    key = generate_key()
    files.write(key)

    shown = repr(OpeningKeys.load(files.private)) + repr(SealingKeys.load(files.public))

    assert str(key.kid) in shown
    assert str(key.as_dict(private=True)["d"]) not in shown


def test_rotation_when_the_files_change_then_the_new_key_seals_and_both_open(files: Files) -> None:
    old, new = generate_key(), generate_key()
    files.write(old)
    sealing, opening = SealingKeys.load(files.public), OpeningKeys.load(files.private)
    before = sealing.seal_secret(DATA, CONTEXT)

    files.write(old, new, active=new)
    after = sealing.seal_secret(DATA, CONTEXT)

    assert sealing.active_ids[""] == new.kid == key_id_of(after)
    assert opening.ids == (old.kid, new.kid)
    assert opening.open_secret(before, CONTEXT) == opening.open_secret(after, CONTEXT)


def test_rotation_when_the_changed_file_is_unusable_then_the_former_keys_stay(files: Files) -> None:
    key = generate_key()
    files.write(key)
    sealing, opening = SealingKeys.load(files.public), OpeningKeys.load(files.private)

    files.public.write_text("{")
    files.private.unlink()

    assert sealing.active_ids == {"": key.kid}
    assert opening.open_secret(sealing.seal_secret(DATA, CONTEXT), CONTEXT)


def test_rotation_when_the_file_was_only_touched_then_the_keys_stay(files: Files) -> None:
    files.write(generate_key())
    keys = SealingKeys.load(files.public)
    before = keys.active_ids

    os.utime(files.public, (1, 1))

    assert keys.active_ids == before


def test_load_when_the_file_is_missing_then_the_error_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"SEALING_PUBLIC_KEYS: .*none"):
        SealingKeys.load(tmp_path / "none")
    with pytest.raises(InvalidConfiguration, match=r"SEALING_PRIVATE_KEYS: .*none"):
        OpeningKeys.load(tmp_path / "none")


@pytest.mark.parametrize(
    "text", ["", "PLANTED-CONTENT", "{}", '{"keys":[]}', "[]", '{"keys":[{"kty":"oct","k":"QQ"}]}']
)
def test_load_when_the_file_is_no_key_set_then_the_error_shows_nothing_of_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)

    with pytest.raises(InvalidConfiguration, match="not a JWK set") as refused:
        OpeningKeys.load(path)

    assert CONTENT not in str(refused.value)


def test_load_when_the_public_file_holds_a_private_key_then_it_is_refused(files: Files) -> None:
    files.write(generate_key())

    with pytest.raises(InvalidConfiguration, match="private"):
        SealingKeys.load(files.private)
    with pytest.raises(InvalidConfiguration, match="is public"):
        OpeningKeys.load(files.public)


def test_write_keys_when_private_then_only_the_owner_may_read(files: Files) -> None:
    files.write(generate_key())

    assert files.private.stat().st_mode & 0o777 == 0o600


def test_key_when_generated_then_its_id_is_no_option_of_a_command() -> None:
    assert all(str(generate_key().kid)[0].isalnum() for _ in range(200))


def test_key_when_it_was_made_then_it_says_so_and_its_age_is_known(tmp_path: Path) -> None:
    key = generate_key()
    write_keys(tmp_path / "public.json", {"a": key}, private=False)
    made = key.as_dict(private=False)["iat"]
    assert SealingKeys.load(tmp_path / "public.json").active_age_seconds(made + 60) == 60


def test_key_when_it_does_not_say_when_it_was_made_then_it_is_of_any_age(tmp_path: Path) -> None:
    write_keys(tmp_path / "public.json", {"a": ECKey.generate_key(CURVE)}, private=False)
    assert SealingKeys.load(tmp_path / "public.json").active_age_seconds(0) == float("inf")


SOUTH, NORTH = frozenset({"south"}), frozenset({"north"})


class Fleet:
    """A public file with a key of each cluster, and the private file of each cluster's agents."""

    def __init__(self, folder: Path, *clusters: str) -> None:
        keys = {cluster: generate_key(cluster) for cluster in clusters}
        write_keys(folder / "public", {str(key.kid): key for key in keys.values()}, private=False)
        for cluster, key in keys.items():
            write_keys(folder / cluster, {str(key.kid): key}, private=True)
        self.folder = folder
        self.sealing = SealingKeys.load(folder / "public")

    def opening(self, cluster: str) -> OpeningKeys:
        return OpeningKeys.load_of_cluster(self.folder / cluster, cluster)


def test_seal_when_a_tenant_is_in_a_cluster_then_no_other_clusters_agents_open_it(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "south", "north")
    sealed, binding = (
        fleet.sealing.seal_secret(DATA, CONTEXT, NORTH),
        fleet.sealing.seal_binding(DATA, USE, CONTEXT, NORTH),
    )
    assert fleet.opening("north").open_secret_for(USE, sealed, binding, CONTEXT)["kubeconfig"] == CONTENT.encode()
    with pytest.raises(Unopenable, match="a key that is not here"):
        fleet.opening("south").open_secret(sealed, CONTEXT)
    with pytest.raises(Unopenable, match="a key that is not here"):
        fleet.opening("south").open_binding(binding, CONTEXT)


def test_seal_when_a_tenant_is_moved_between_clusters_then_the_agents_of_both_open_it_and_no_others(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, "south", "north", "east")
    sealed = fleet.sealing.seal_secret(DATA, CONTEXT, SOUTH | NORTH)
    binding = fleet.sealing.seal_binding(DATA, USE, CONTEXT, SOUTH | NORTH)
    for cluster in ("south", "north"):
        assert fleet.opening(cluster).open_secret_for(USE, sealed, binding, CONTEXT)["kubeconfig"] == CONTENT.encode()
    assert set(key_ids_of(sealed)) == set(fleet.sealing.ids_for(SOUTH | NORTH))
    with pytest.raises(Unopenable, match="a key that is not here"):
        fleet.opening("east").open_secret(sealed, CONTEXT)
    with pytest.raises(Unopenable, match="another Secret"):
        fleet.opening("north").open_secret(sealed, replace(CONTEXT, namespace="team-b"))


@pytest.mark.parametrize("part", ["protected", "iv", "ciphertext", "tag", "recipients"])
def test_open_when_a_part_of_what_was_sealed_for_two_is_damaged_then_it_is_refused(tmp_path: Path, part: str) -> None:
    fleet = Fleet(tmp_path, "south", "north")
    sealed = orjson.loads(fleet.sealing.seal_secret(DATA, CONTEXT, SOUTH | NORTH))
    for damaged in (sealed | {part: "AAAA"}, {name: value for name, value in sealed.items() if name != part}):
        with pytest.raises(Unopenable):
            fleet.opening("north").open_secret(orjson.dumps(damaged).decode(), CONTEXT)


def test_keys_when_a_cluster_has_none_of_its_own_then_the_one_that_names_no_cluster_seals(tmp_path: Path) -> None:
    shared, north, former = generate_key(), generate_key("north"), generate_key("north")
    write_keys(tmp_path / "public", {str(key.kid): key for key in (north, shared, former)}, private=False)
    keys = SealingKeys.load(tmp_path / "public")
    assert keys.active_ids == {"": shared.kid, "north": north.kid}
    assert keys.ids_for(SOUTH) == (shared.kid,)
    assert keys.ids_for(NORTH) == (north.kid,)
    assert set(keys.ids_for(SOUTH | NORTH)) == {shared.kid, north.kid}


def test_keys_when_it_is_not_known_where_a_tenant_is_then_nothing_is_sealed_unless_no_key_names_a_cluster(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, "south")
    for clusters in (frozenset[str](), NORTH):
        assert fleet.sealing.ids_for(clusters) == ()
        with pytest.raises(NoKey):
            fleet.sealing.seal_secret(DATA, CONTEXT, clusters)
    key = generate_key()
    write_keys(tmp_path / "public", {str(key.kid): key}, private=False)
    assert not fleet.sealing.names_clusters
    assert fleet.sealing.ids_for(()) == (key.kid,)


def test_load_when_the_private_keys_are_of_another_cluster_then_it_says_whose(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "south", "north")
    with pytest.raises(InvalidConfiguration, match="of engine cluster south, and these are agents of north"):
        OpeningKeys.load_of_cluster(tmp_path / "south", "north")
    opening, shared = fleet.opening("north"), generate_key()
    known = opening.ids
    write_keys(tmp_path / "north", {str(key.kid): key for key in (generate_key("south"),)}, private=True)
    assert opening.ids == known, "another cluster's keys came while it ran"
    write_keys(tmp_path / "north", {str(shared.kid): shared}, private=True)
    assert opening.ids == (shared.kid,)


@pytest.mark.parametrize("cluster", ["North", "a,b", "", 7, None])
def test_load_when_a_key_names_what_cannot_be_a_cluster_then_it_is_refused(tmp_path: Path, cluster: object) -> None:
    key = generate_key().as_dict(private=False) | {"engine_cluster": cluster}
    (tmp_path / "public").write_bytes(orjson.dumps({"keys": [key]}))
    if cluster is None:
        assert not SealingKeys.load(tmp_path / "public").names_clusters
    else:
        with pytest.raises(InvalidConfiguration, match="cannot be the id of an engine cluster"):
            SealingKeys.load(tmp_path / "public")
