/*
Shared append: any number of producers put frames into one segment at once.

Models SharedAppender (claim, copy, publish, batch), ClaimRepair (wait or repair), LogReader (the walk), ReadOnlyStore
(stepping over), SlotTable and OwnerSlot (locks/slot-NNNN and the generations in locks/slots), LogAppender.Close (fencing an
open claim); all in src/MappedFileQueues/Log. docs/DESIGN.md section 1.

The log is an array of words. A frame of n words is one header word and n - 1 payload words, in the same array, because in a
segment too nothing but the walk tells a header from payload. The payload that is written here is the worst there is: it reads
as the header of a published frame. A header is one word and is read, stored and compared as one.

Producer:
  1. take the kernel lock of a slot; under it raise the slot's generation;
  2. walk over what is taken, other producers' living claims too, to the first free header;
  3. claim: compare-and-swap from free to (claimed, length, slot, generation); on failure walk on;
  4. store the payload; of a batch, the headers of all frames but the first;
  5. publish: compare-and-swap of the first header from exactly the claimed value. When that fails, the producer was fenced
     and Produce throws;
  6. at the end let the slot go, or keep it and stay idle.
  Killed after 1: nothing is left behind. After 3 or 4: a hole that stands until somebody repairs it. After 5: a message.

Reader at a claimed header:
  1. remember the header;
  2. the slot's generation is another: the owner is dead. Else probe the slot, a shared, non-blocking lock. Free: dead;
  3. dead: compare-and-swap from the remembered header to padding, still under the probe. A reader without write access looks
     at the header again instead and steps over the frame if it is unchanged.
  Killed in between: the probe's lock goes, nothing else has changed.

Somebody who disposes a queue pads a claim that is still out after LockTimeout, then lets the slot go; the producer's late
stores and its late publish come after that (-DDISPOSERS). With -DLOST_LOCKS a slot's lock vanishes under a producer that continues
 (a lock file that was replaced).

What must be true:
  forged   no payload is taken for a header;
  unsaid   no message is delivered whose Produce did not succeed;
  torn     no message is delivered with another's bytes, or before its own are there;
  lost     at the end every reader has met every published message;
  robbed   a producer that lives, holds its slot and was not fenced always publishes;
  stuck    nobody waits for ever (an invalid end state).

variant design                         holds
variant design-late-publish            holds              -DDISPOSERS=1 -DPRODUCERS=2
variant design-lost-lock               holds              -DLOST_LOCKS=1 -DREADONLY_READERS=0 -DPRODUCERS=2 -DCELLS=4
variant design-long-log                full-holds         -DCELLS=4
variant design-three-lost-lock         full-holds         -DLOST_LOCKS=1 -DREADONLY_READERS=0
variant design-two-repairers           full-holds         -DCELLS=4 -DREPAIRERS=2 -DREADONLY_READERS=0
variant design-three-late-publish      full-holds         -DDISPOSERS=1 -DDEATHS=0
variant witness                        fails:witness      -DWITNESS
variant no-generations                 fails:stuck        -DNO_GENERATIONS
variant claim-by-store                 fails:lost|robbed  -DCLAIM_BY_STORE
variant publish-by-store               fails:lost         -DPUBLISH_BY_STORE -DDISPOSERS=1 -DPRODUCERS=2
variant publish-before-copy            fails:torn         -DPUBLISH_BEFORE_COPY
variant batch-first-header-first       fails:robbed|lost  -DBATCH_FIRST_HEADER_FIRST
variant repair-by-store                fails:lost         -DREPAIR_BY_STORE
variant probe-before-header            fails:robbed       -DPROBE_BEFORE_HEADER
variant step-over-without-second-look  fails:lost         -DNO_SECOND_LOOK
*/

#ifndef CELLS
#define CELLS 3
#endif
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef DISPOSERS
#define DISPOSERS 0
#endif
#ifndef LOST_LOCKS
#define LOST_LOCKS 0
#endif
#ifndef REPAIRERS
#define REPAIRERS 1
#endif
#ifndef READONLY_READERS
#define READONLY_READERS 1
#endif
#define SLOTS 2
#define NOBODY 0

/* A header: bits 0-2 state, 3-4 length in words, 5-10 the owner (slot and generation) or the message's number. */
#define FREE      0
#define CLAIMED   1
#define PUBLISHED 2
#define PADDING   3
#define GOES_ON   4
#define HEADER(state, length, rest)  ((state) | ((length) << 3) | ((rest) << 5))
#define STATE(header)      ((header) & 7)
#define LENGTH(header)     (((header) >> 3) & 3)
#define REST(header)       ((header) >> 5)
#define OWNER(slot, generation)      ((slot) | ((generation) << 1))
#define SLOT(header)       (REST(header) & 1)
#define GENERATION(header) (REST(header) >> 1)

/* The second message of a batch has a number of its own. A forged header has one that no message has. */
#define SECOND(id)         ((id) + PRODUCERS)
#define FORGED             32
#define PAYLOAD(id)        HEADER(PUBLISHED, 1, FORGED + (id))

short log[CELLS];
byte holder[SLOTS];          /* who holds the slot's lock exclusively */
byte probes[SLOTS];          /* how many hold it shared               */
byte generation[SLOTS];
byte started = 0;            /* producers that have taken a slot       */
byte living = PRODUCERS;     /* producers that may still append       */
byte deaths = 0;
byte disposed = 0;
byte lockLosses = 0;
short published = 0;         /* one bit a message whose Produce has succeeded */
short fenced = 0;            /* the claim that a disposer has fenced */

bool forged, unsaid, torn, lost, robbed, witness;

#define MAY_DIE  if :: atomic { deaths < DEATHS -> deaths++; goto killed } :: true fi
#if LOST_LOCKS > 0
#define MAY_LOSE_LOCK \
  if \
  :: atomic { lockLosses < LOST_LOCKS && holder[slot] == _pid -> lockLosses++; holder[slot] = NOBODY; excused = true } \
  :: true \
  fi
#else
#define MAY_LOSE_LOCK skip
#endif

inline releaseSlot() {
  if :: holder[slot] == _pid -> holder[slot] = NOBODY :: else -> skip fi
}

inline publish() {
  d_step {
    if
#ifdef PUBLISH_BY_STORE
    :: true ->
#else
    :: log[at] == mine ->
#endif
       log[at] = (batch -> HEADER(GOES_ON, 1, id) : HEADER(PUBLISHED, length, id));
       published = published | (1 << id) | (batch -> 1 << SECOND(id) : 0)
    :: else ->
       robbed = !excused && fenced != mine;
       assert(!robbed)
    fi
  }
}

proctype Producer(byte id) {
  byte at = 0, slot = 0, length = 1;
  bool batch = false, excused = false;
  short mine = 0;

  /* Producers differ by their number alone, so that it is enough to look at those runs where they start in order. */
  atomic {
    started == id - 1 -> started++;
    if
    :: holder[0] == NOBODY && probes[0] == 0 -> slot = 0
    :: !(holder[0] == NOBODY && probes[0] == 0) && holder[1] == NOBODY && probes[1] == 0 -> slot = 1
    :: else -> goto done
    fi;
    holder[slot] = _pid;
    if :: length = 1 :: length = 2 :: length = 2; batch = true fi;
#ifndef NO_GENERATIONS
    generation[slot]++;
#endif
    mine = HEADER(CLAIMED, length, OWNER(slot, generation[slot]))
  };
  MAY_LOSE_LOCK;

  /* Walk and claim. The compare-and-swap is its own look, so both are one step. */
  do
  :: atomic { at + length > CELLS -> goto done }               /* the segment is full; rolling is another model */
  :: atomic { at + length <= CELLS && STATE(log[at]) != FREE -> at = at + LENGTH(log[at]) }
#ifdef CLAIM_BY_STORE
  :: at + length <= CELLS && STATE(log[at]) == FREE -> log[at] = mine; break
#else
  :: atomic { at + length <= CELLS && STATE(log[at]) == FREE -> log[at] = mine; break }
#endif
  od;
  MAY_DIE;
  MAY_LOSE_LOCK;

#ifdef PUBLISH_BEFORE_COPY
  publish();
#endif
  if
  :: !batch && length == 2 -> log[at + 1] = PAYLOAD(id)
  :: !batch && length == 1 -> skip
  :: batch ->
#ifdef BATCH_FIRST_HEADER_FIRST
     publish();
#endif
     log[at + 1] = HEADER(PUBLISHED, 1, SECOND(id))
  fi;
  MAY_DIE;
#ifdef PUBLISH_BEFORE_COPY
  skip
#elif defined(BATCH_FIRST_HEADER_FIRST)
  if :: batch -> skip :: else -> publish() fi;
#else
  publish();
#endif

done:
  atomic {
    living--;
    if :: releaseSlot() :: true fi;                            /* an orderly end, or idle with the slot held */
    goto over
  };
killed:
  atomic {
    living--; releaseSlot();
over:
    at = 0; slot = 0; length = 0; batch = false; excused = false; mine = 0
  }
}

/* Checks the message whose header was read, and goes on. Its payload is read after its header. */
inline deliver() {
  d_step {
    forged = REST(header) >= FORGED;
    assert(!forged);
    unsaid = !(published & (1 << REST(header)));
    assert(!unsaid);
    if
    :: LENGTH(header) == 2 -> torn = log[at + 1] != PAYLOAD(REST(header))
    :: else -> skip
    fi;
    assert(!torn);
    seen = seen | (1 << REST(header));
    at = at + LENGTH(header); header = 0; slot = 0
  }
}

inline toPadding() {
#ifdef REPAIR_BY_STORE
  log[at] = HEADER(PADDING, LENGTH(header), 0)
#else
  d_step {
    if :: log[at] == header -> log[at] = HEADER(PADDING, LENGTH(header), 0) :: else -> skip fi
  }
#endif
}

inline stepOver() {
  d_step {
#ifdef NO_SECOND_LOOK
    at = at + LENGTH(header)
#else
    if :: log[at] == header -> at = at + LENGTH(header) :: else -> skip fi
#endif
  }
}

inline waitOrRepair() {
  if
  :: atomic { log[at] != header -> header = 0; slot = 0 }      /* it has changed: look again */
#ifdef PROBE_BEFORE_HEADER
  :: wasFree & (1 << slot) -> toPadding()
  :: atomic { !(wasFree & (1 << slot)) && holder[slot] == NOBODY -> header = 0; slot = 0 }
#else
  :: atomic { holder[slot] == NOBODY -> probes[slot]++ };
     if
     :: atomic { mortal && deaths < DEATHS -> deaths++; probes[slot]--; goto killed }
     :: true
     fi;
     if :: writes -> toPadding() :: else -> stepOver() fi;
     atomic { probes[slot]--; header = 0; slot = 0 }
#endif
#ifndef NO_GENERATIONS
  :: generation[slot] != GENERATION(header) ->
     if :: writes -> toPadding() :: else -> stepOver() fi
#endif
  fi
}

proctype Reader(bool writes; bool mortal) {
  byte at = 0, slot = 0;
  short header = 0, seen = 0;
#ifdef PROBE_BEFORE_HEADER
  byte wasFree = 0;
#endif

  do
  :: atomic { at >= CELLS -> break }
  :: atomic { at < CELLS && STATE(log[at]) == FREE && living == 0 -> break }
#ifdef PROBE_BEFORE_HEADER
  /* Probes every slot first, and trusts the answers for whatever header it reads then. */
  :: at < CELLS && !(STATE(log[at]) == FREE && living == 0) ->
     wasFree = (holder[0] == NOBODY -> 1 : 0) | (holder[1] == NOBODY -> 2 : 0);
     atomic {
#else
  :: atomic { at < CELLS && STATE(log[at]) != FREE ->
#endif
       header = log[at]; slot = SLOT(header);
       if
       :: STATE(header) == FREE -> skip
       :: STATE(header) == PADDING -> at = at + LENGTH(header); header = 0; slot = 0
       :: STATE(header) == PUBLISHED || STATE(header) == GOES_ON -> skip
       :: STATE(header) == CLAIMED -> skip
       fi
     };
     if
     :: STATE(header) == FREE -> skip
     :: STATE(header) == PUBLISHED || STATE(header) == GOES_ON -> deliver()
     :: STATE(header) == CLAIMED -> waitOrRepair()
     fi
  od;
  skip;
  d_step {
    lost = (published & ~seen) != 0;
    assert(!lost)
#ifdef WITNESS
    ;
    /* Not a defect: shows that a batch, a repair, a death and a reused slot do meet in one run. */
    witness = deaths == 1 && generation[0] == 2 && STATE(log[0]) == PADDING && STATE(log[1]) == GOES_ON;
    assert(!witness)
#endif
  };
killed:
  atomic { at = 0; header = 0; slot = 0; seen = 0 }
}

/* Disposes the queue of whoever holds a slot while its claim is out: padding first, the slot's lock last. */
proctype Disposer() {
  byte at = 0, slot = 0, owner = NOBODY;
  short header = 0;
  if
  :: true -> goto over
  :: atomic { STATE(log[0]) == CLAIMED -> at = 0; header = log[0] }
  :: atomic { STATE(log[1]) == CLAIMED -> at = 1; header = log[1] }
  fi;
  d_step {
    slot = SLOT(header);
    if
    :: log[at] == header && holder[slot] != NOBODY && GENERATION(header) == generation[slot] ->
       log[at] = HEADER(PADDING, LENGTH(header), 0);
       fenced = header;
       owner = holder[slot]
    :: else -> skip
    fi
  };
  if :: atomic { owner != NOBODY && holder[slot] == owner -> holder[slot] = NOBODY } :: else -> skip fi;
over:
  skip
}

init {
  atomic {
    byte id = 1;
    do :: id <= PRODUCERS -> run Producer(id); id++ :: else -> break od;
#if REPAIRERS > 0
    run Reader(true, REPAIRERS + READONLY_READERS > 1);
#endif
#if REPAIRERS > 1
    run Reader(true, false);
#endif
#if READONLY_READERS > 0
    run Reader(false, false);
#endif
#if DISPOSERS > 0
    run Disposer();
#endif
  }
}
