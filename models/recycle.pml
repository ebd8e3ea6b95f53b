/*
Recycling: the file of a removed segment becomes another one, while readers map it.

Models SegmentWindow.OpenInUse, SegmentTrimmer.RemoveFiles and SegmentRecycler in src/MappedFileQueues. docs/DESIGN.md
section 8. One file has one of four names, X (a segment), SPARE, TEMPORARY or Y (the next segment), or none. What it holds is
either X's bytes, zeros, or Y's messages. A shared lock on the descriptor stands for the mark of whoever maps it; it lives as
long as the mapping.

Reader:  1 open X by its name; none: X is gone; 2 take the shared lock; not given: begin again; 3 look whether X still means
         this file; no: begin again; 4 map, read, unmap, and let the lock go. May stand still anywhere, or be killed: then the
         lock goes.
Trimmer: rename X to SPARE.
Makers (two): 1 rename SPARE to their TEMPORARY: one succeeds; 2 take the exclusive lock without waiting; not given: unlink;
         3 a second name: unlink; 4 zero; 5 let the lock go; 6 rename to Y. Then a producer writes into Y. May be killed between
         1 and 2: TEMPORARY stays. No other maker has that name, so nobody takes the file for its own new one.
Archiver: gives X a second name at some time before it is removed; its bytes must stay.

Zeroing (in Y, once it has its name): two threads of any processes extend `allocated` by one place each: 1 lock, 2 read the
bound, 3 zero the place behind it, 4 raise the bound, 5 unlock. A producer writes into every place below the bound.

What must be true:
  torn    a reader that has mapped X reads X's bytes;
  archive the bytes behind a second name stay;
  zeroed  a message is never zeroed;
  old     a producer never finds old bytes at a place below the bound.

variant design                       holds
variant design-two-readers           holds                 -DREADERS=2
variant witness                      fails:witness         -DWITNESS
variant mapped-without-mark          fails:torn            -DNO_MARK
variant no-look-after-mark           fails:torn            -DNO_LOOK
variant taken-without-exclusion      fails:torn            -DNOT_EXCLUSIVE
variant hard-link-ignored            fails:archive         -DLINK_IGNORED
variant zeroing-without-lock         fails:zeroed          -DZERO_UNLOCKED
variant bound-raised-first           fails:old             -DRAISED_EARLY
variant old-bytes-not-zeroed         fails:old             -DNOT_ZEROED
variant temporary-name-shared        fails:old             -DNAME_SHARED
*/

#ifndef READERS
#define READERS 1
#endif
#define PLACES 3

mtype = { X, SPARE, TEMPORARY, Y, NONE };
mtype name = X;
bool second;                    /* the archiver's name */
byte sharing;
bool exclusive;
bool holdsX = true;             /* the file holds X's bytes in its first part */
bool archived;
bool isLeft;                    /* the file is TEMPORARY, and its maker is dead */

byte cell[PLACES] = 2;          /* behind the first part: 2 old bytes, 0 zeros, 1 a message */
byte allocated = 0;
bool zeroing;

bool torn; bool archive; bool zeroed; bool old; bool witness;

active [READERS] proctype Reader()
{
again:
    if
    :: atomic { name == X -> skip }          /* open; the descriptor stays on this file from here on */
    :: atomic { name != X -> goto done }
    fi;
#ifndef NO_MARK
    if
    :: atomic { !exclusive -> sharing++ }
    :: atomic { exclusive -> goto again }
    fi;
#ifndef NO_LOOK
    if
    :: atomic { name == X -> skip }
    :: atomic { name != X -> sharing--; goto again }
    fi;
#endif
#endif
    do
    :: atomic { torn = torn || !holdsX; assert(!torn) }
    :: break
    od;
#ifndef NO_MARK
    sharing--;
#endif
done:
    skip
}

active proctype Archiver()
{
    if
    :: atomic { name == X -> second = true; archived = true }
    :: skip
    fi
}

active proctype Trimmer()
{
    atomic { name == X -> name = SPARE }
}

active [2] proctype Maker()
{
    if
    :: atomic { name == SPARE -> name = TEMPORARY }
#ifdef NAME_SHARED
    :: atomic { name == TEMPORARY && isLeft -> name = Y; goto done }    /* opened instead of created, and renamed as it is */
#endif
    :: atomic { name == TEMPORARY || name == Y || name == NONE -> goto done }
    fi;
    if
    :: skip
    :: isLeft = true; goto done                                         /* killed */
    fi;
#ifdef NOT_EXCLUSIVE
    exclusive = true;
#else
    if
    :: atomic { sharing == 0 && !exclusive -> exclusive = true }
    :: atomic { sharing > 0 || exclusive -> name = NONE; goto done }
    fi;
#endif
#ifndef LINK_IGNORED
    if
    :: atomic { second -> exclusive = false; name = NONE; goto done }
    :: atomic { !second -> skip }
    fi;
#endif
    atomic { holdsX = false; archive = archived; assert(!archive) };
    exclusive = false;
    name = Y;
done:
    skip
}

/* In the segment that the file has become. */
active [2] proctype Extender()
{
    byte from;
    atomic { name == Y || name == NONE || isLeft -> if :: name != Y -> goto done :: else fi };
#ifndef ZERO_UNLOCKED
    atomic { !zeroing -> zeroing = true };
#endif
    from = allocated;
    if
    :: from < PLACES - 1 ->
#ifdef RAISED_EARLY
        allocated = from + 1;
#endif
#ifndef NOT_ZEROED
        atomic { zeroed = (cell[from] == 1); cell[from] = 0; assert(!zeroed) };
#endif
#ifndef RAISED_EARLY
        atomic { if :: allocated < from + 1 -> allocated = from + 1 :: else fi }
#endif
    :: else
    fi;
    zeroing = false;
done:
    skip
}

active proctype Producer()
{
    byte next = 0;
    do
    :: atomic { name == Y && holdsX -> old = true; assert(!old) }
    :: atomic { next < allocated -> old = (cell[next] == 2); assert(!old); cell[next] = 1; next++ }
    :: next >= 2 ->
#ifdef WITNESS
        /* Not a defect: the file became the next segment, and took messages. */
        atomic { witness = (name == Y); assert(!witness) };
#endif
        break
    :: timeout -> break
    od
}
