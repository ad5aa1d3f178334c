"""Names of features in a table of slots."""

from fiol.compiler.compiled import inlined_strictly
from fiol.readers.loops.words import U0, U1


@inlined_strictly
def rehash(slots, slot_of, hashes, names, mask):  # type: ignore[no-untyped-def]
    """Put all names into slots anew, in their order, of which there are mask + 1."""
    slot = U0
    while slot <= mask:
        slots[slot] = 0
        slot += U1
    name = U0
    while name < names:
        slot = hashes[name] & mask
        while slots[slot] != 0:
            slot = (slot + U1) & mask
        name += U1
        slots[slot] = name
        slot_of[name - U1] = slot
