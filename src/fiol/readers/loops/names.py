"""Names of features, found by their bytes, and numbered as they come.

A name is the bytes of an owner, which is a column or a namespace: those of another owner are another name. A slot of a
table has two numbers: the hash of a name, and its owner, its size and one more than its number as one; 0 if it is free.
about[name] are where its text starts (what is written in front of an owner's names included), its hash, its owner and
size, its slot, and a number of its own; about[name + 1] says where the text ends, at a line's end that separates it
from the next.

All steps of a hash of at most 8 bytes can be undone, so that two of these with the same hash, owner and size are the
same: text is compared for longer names only, and for those of owners beyond `MOST_OWNER`.
"""

import numpy as np

from fiol.compiler.compiled import inlined_strictly
from fiol.features.murmur import MIXER
from fiol.readers.loops.words import HALF, NEWLINE, U0, U1, U2, U3, U4, U8, U16, U32, U40, hash_of, same_bytes

#: Owners from here on, and sizes from here on, are this one in a slot.
MOST_OWNER, MOST_SIZE = np.uint64(2**24 - 1), np.uint64(255)


@inlined_strictly
def owned(owner, size):
    """Owner and size as one number, the lower half free."""
    return min(owner, MOST_OWNER) << U40 | min(size, MOST_SIZE) << U32


@inlined_strictly
def find_name(words, start, stop, owner, front, prefix, table, mask):
    """Return the slot of an owner's name from start to stop, or the free slot for it; and its hash.

    There are `prefix` bytes in front of it in its text. For `MOST_OWNER` these begin with `front`: words, and from
    where to where.
    """
    slots, about, _text, text_words = table
    size = stop - start
    h, key = hash_of(words, start, stop, owner * MIXER), owned(owner, size)
    slot = h & mask
    while slots[slot, U1] != U0:
        if slots[slot, U0] == h and slots[slot, U1] & ~HALF == key:
            if size <= U8 and owner < MOST_OWNER:
                break
            name = (slots[slot, U1] & HALF) - U1
            o = about[name, U0]
            if (
                about[name + U1, U0] - U1 - o == prefix + size
                and same_bytes(words, start, stop, text_words, o + prefix)
                and (owner < MOST_OWNER or same_bytes(*front, text_words, o))
            ):
                break
        slot = (slot + U1) & mask
    return slot, h


@inlined_strictly
def has_room(table, names, size):
    """Return whether there is room for one more name of this many bytes."""
    _slots, about, text, _text_words = table
    return names + U1 < np.uint64(about.shape[0]) and about[names, U0] + size + U16 <= np.uint64(text.shape[0])


@inlined_strictly
def add_name(slot, h, owner, size, number, end, table, names, mask):
    """Put a new name, `size` bytes of an owner, with a number of its own, into its slot: how many names, and the mask.

    Its text has been written up to the end.
    """
    slots, about, text, _text_words = table
    key = owned(owner, size)
    text[end] = NEWLINE
    about[names, U1], about[names, U2], about[names, U3], about[names, U4] = h, key, slot, number
    names += U1
    about[names, U0] = end + U1
    slots[slot, U0], slots[slot, U1] = h, key | names
    if names * U3 > mask * U2 and mask + U1 < np.uint64(slots.shape[0]):
        mask = mask + mask + U1
        rehash(slots, about, names, mask)
    return names, mask


@inlined_strictly
def rehash(slots, about, names, mask):
    """Put all names into slots anew, of which there are mask + 1."""
    slot = U0
    while slot <= mask:
        slots[slot, U1] = U0
        slot += U1
    name = U0
    while name < names:
        slot = about[name, U1] & mask
        while slots[slot, U1] != U0:
            slot = (slot + U1) & mask
        about[name, U3] = slot
        name += U1
        slots[slot, U0], slots[slot, U1] = about[name - U1, U1], about[name - U1, U2] | name


@inlined_strictly
def take_back(table, names, kept):
    """Return the count of names without those added last, behind the first `kept`."""
    slots, about, _text, _text_words = table
    while names > kept:
        names -= U1
        slots[about[names, U3], U1] = U0
    return names
