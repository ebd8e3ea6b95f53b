/*
Opening a store: who is alone, who recovers, and that nobody appends meanwhile.

Models StoreOpening (the locks `open` and `attached`, the downgrade, the word "recovered in boot B") with OpenLock, and
StoreRecovery with TailSearch (after a cut, after deaths); all in src/MappedFileQueues/Log. docs/DESIGN.md section 3.
Appends are those of shared_append.pml, with frames of one word.

The first opener stands before what a power loss left: a good frame, a claim of the boot before, behind it a whole frame that
never was confirmed (stale), a tail hint that points past them, and a boot word of another boot. flock converts a lock by
giving it up and asking anew, so a downgrade has a gap.

Opener:
  1. lock `open`;
  2. with a fresh descriptor try `attached` exclusively. Got it: alone;
  3. alone, and the boot word is another's: recover after a cut. Walk from the checkpoint to the first frame that is free,
     claimed or bad, overwrite the tail hint, zero what lies behind, reset the generations, set the boot word last.
     Alone, and the boot word is this boot's: recover after deaths. Walk from the checkpoint, claims become padding, overwrite
     the tail hint, then reset worn out generations (here: all);
  4. alone: down to shared. Not alone: lock `attached` shared, which nobody can hold exclusively now;
  5. let `open` go. Now attached: take a slot and append, starting at the tail hint.
  Killed anywhere: the locks go. In 3 after a cut, the boot word is still another's and the next one finds the same tail;
  after deaths, the next one walks again.

Detaching: let the slot go, then `attached`; without `open`.

Reader: takes neither lock, waits for the first recovery, steps over claims of the dead.

What must be true:
  beside   recovery never runs beside somebody who is attached;
  early    nobody appends to a store that was not recovered in this boot;
  refused  nobody who has `open` finds `attached` held exclusively;
  stale    what a cut had left behind the tail is never delivered;
  lost     the reader gets every message published in this boot, and the one that was confirmed before;
  robbed   a producer that lives always publishes;
  stuck    nobody waits for ever (an invalid end state).

variant design                       holds
variant design-many-deaths           full-holds            -DDEATHS=3
variant design-four-processes        full-holds            -DPROCESSES=4 -DCELLS=5
variant design-two-appends           full-holds            -DAPPENDS=2 -DCELLS=7
variant witness                      fails:witness         -DWITNESS
variant upgrade-shared-to-exclusive  fails:beside          -DUPGRADE
variant downgrade-outside-open       fails:beside|refused  -DDOWNGRADE_OUTSIDE_OPEN
variant no-open-lock                 fails:beside|refused  -DNO_OPEN_LOCK
variant recovery-after-attaching     fails:early|beside    -DRECOVERY_LATE
variant walk-from-hint               fails:stuck           -DWALK_FROM_HINT
variant hint-merged-by-recovery      fails:lost            -DHINT_MERGED
variant boot-word-set-first          fails:stale           -DBOOT_WORD_FIRST
variant cut-taken-for-deaths         fails:stale           -DCUT_TAKEN_FOR_DEATHS
*/

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef APPENDS
#define APPENDS 1
#endif
#ifndef CELLS
#define CELLS 4
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#define SLOTS 2
#define NOBODY 0

/* A header: bits 0-1 state, from bit 2 the owner (slot and generation) or the message's number. */
#define FREE      0
#define CLAIMED   1
#define PUBLISHED 2
#define PADDING   3
#define HEADER(state, rest)  ((state) | ((rest) << 2))
#define STATE(header)        ((header) & 3)
#define REST(header)         ((header) >> 2)
#define OWNER(slot, generation)  ((slot) | ((generation) << 1))
#define SLOT(header)         (REST(header) & 1)
#define GENERATION(header)   (REST(header) >> 1)
#define OLD   1                       /* confirmed before the cut */
#define STALE 63

byte log[CELLS + 1];                  /* one more, always free */
bool recovered = false;               /* the boot word is this boot's */
byte hint = 3;
byte generation[SLOTS], slotHolder[SLOTS];
byte openHolder = NOBODY, attachedAlone = NOBODY, attachedShared = 0;
byte attached = 0;                    /* how many take themselves for attached */
byte started = 0, living = PROCESSES, deaths = 0;
byte deathRecoveries = 0, padded = 0;
short published = 1 << OLD;

bool beside, early, refused, stale, lost, robbed, witness;

#define MAY_DIE  if :: atomic { deaths < DEATHS -> deaths++; goto killed } :: true fi

inline checkAlone() {
  beside = attached > (isAttached -> 1 : 0);
  assert(!beside)
}

inline raiseHintTo(place) {
#ifdef HINT_MERGED
  hint = (place > hint -> place : hint)
#else
  hint = place
#endif
}

inline recoverAfterCut() {
#ifdef BOOT_WORD_FIRST
  recovered = true;
#endif
  do
  :: atomic { at < CELLS && STATE(log[at]) == PUBLISHED -> at++ }
  :: atomic { at >= CELLS || STATE(log[at]) != PUBLISHED -> break }
  od;
  skip;
  d_step { checkAlone(); raiseHintTo(at) };
  do
  :: at >= CELLS -> break
  :: at < CELLS -> d_step { checkAlone(); log[at] = FREE; at++ };
     MAY_DIE
  od;
  skip;
  d_step { checkAlone(); generation[0] = 0; generation[1] = 0; recovered = true }
}

inline recoverAfterDeaths() {
#ifdef WALK_FROM_HINT
  at = hint;
#endif
  do
  :: atomic { at < CELLS && STATE(log[at]) == CLAIMED -> checkAlone(); log[at] = HEADER(PADDING, 0); at++; padded++ };
     MAY_DIE
  :: atomic { at < CELLS && (STATE(log[at]) == PUBLISHED || STATE(log[at]) == PADDING) -> at++ }
  :: atomic { at >= CELLS || STATE(log[at]) == FREE -> break }
  od;
  skip;
  d_step { checkAlone(); raiseHintTo(at) };
  MAY_DIE;
  d_step { checkAlone(); generation[0] = 0; generation[1] = 0; deathRecoveries++ }
}

inline recover() {
  at = 0;
#ifdef CUT_TAKEN_FOR_DEATHS
  recoverAfterDeaths();
  recovered = true;
#else
  if
  :: recovered -> recoverAfterDeaths()
  :: !recovered -> recoverAfterCut()
  fi;
#endif
  MAY_DIE
}

/* Tries `attached` exclusively, else takes it shared. */
inline lockAttached() {
#ifdef UPGRADE
  atomic { attachedAlone == NOBODY -> attachedShared++; holdsShared = true };
  /* The conversion first gives up what was held. */
  atomic { attachedShared--; holdsShared = false };
  if
  :: atomic { attachedAlone == NOBODY && attachedShared == 0 -> attachedAlone = _pid }
  :: else -> skip                     /* "not alone"; it takes itself for a shared holder, and is none */
  fi
#else
  atomic {
    if
    :: attachedAlone == NOBODY && attachedShared == 0 -> attachedAlone = _pid
    :: attachedAlone == NOBODY && attachedShared > 0 -> attachedShared++; holdsShared = true
    :: attachedAlone != NOBODY -> refused = true; assert(!refused)
    fi
  }
#endif
}

inline goDown() {
  attachedAlone = NOBODY;
  atomic { attachedAlone == NOBODY -> attachedShared++; holdsShared = true }
}

inline append() {
  atomic {
    early = !recovered;
    assert(!early);
    if
    :: slotHolder[0] == NOBODY -> slot = 0
    :: slotHolder[0] != NOBODY && slotHolder[1] == NOBODY -> slot = 1
    :: else -> goto detach            /* two slots are enough to be reused; the third process goes */
    fi;
    slotHolder[slot] = _pid;
    generation[slot]++
  };
  mine = HEADER(CLAIMED, OWNER(slot, generation[slot]));
  at = hint;
  do
  :: left == 0 -> break
  :: left > 0 ->
     do
     :: atomic { at >= CELLS -> goto detach }
     :: atomic { at < CELLS && log[at] != FREE -> at++ }
     :: atomic { at < CELLS && log[at] == FREE -> log[at] = mine; break }
     od;
     MAY_DIE;
     d_step {
       robbed = log[at] != mine;
       assert(!robbed);
       log[at] = HEADER(PUBLISHED, 2 * id + left);
       published = published | (1 << (2 * id + left))
     };
     atomic { at++; hint = (at > hint -> at : hint); left-- }
  od
}

proctype Process(byte id) {
  byte at = 0, slot = 0, mine = 0, left = APPENDS;
  bool holdsShared = false, isAttached = false;

#ifdef NO_OPEN_LOCK
  atomic { started == id - 1 -> started++ };
#else
  atomic { openHolder == NOBODY && started == id - 1 -> started++; openHolder = _pid };
#endif
  lockAttached();
  MAY_DIE;
#ifdef RECOVERY_LATE
  if
  :: attachedAlone == _pid ->
     goDown();
     atomic { openHolder = NOBODY; attached++; isAttached = true };
     recover()
  :: else ->
     atomic { openHolder = NOBODY; attached++; isAttached = true }
  fi;
#elif defined(DOWNGRADE_OUTSIDE_OPEN)
  if
  :: attachedAlone == _pid ->
     recover();
     atomic { openHolder = NOBODY; attached++; isAttached = true };
     goDown()
  :: else ->
     atomic { openHolder = NOBODY; attached++; isAttached = true }
  fi;
#else
  if
  :: attachedAlone == _pid -> recover(); goDown()
  :: else -> skip
  fi;
  atomic { openHolder = NOBODY; attached++; isAttached = true };
#endif
  MAY_DIE;
  append();
  /* Some stay attached, idle, and keep their slot. */
  if
  :: atomic { true -> living--; goto over }
  :: true -> skip
  fi;
detach:
  atomic { if :: slotHolder[slot] == _pid -> slotHolder[slot] = NOBODY :: else -> skip fi };
killed:
  atomic {
    living--;
    if :: slotHolder[slot] == _pid -> slotHolder[slot] = NOBODY :: else -> skip fi;
    if :: isAttached -> attached-- :: else -> skip fi;
    if :: openHolder == _pid -> openHolder = NOBODY :: else -> skip fi;
    if :: attachedAlone == _pid -> attachedAlone = NOBODY :: else -> skip fi;
    if :: holdsShared -> attachedShared-- :: else -> skip fi;
over:
    at = 0; slot = 0; mine = 0; left = 0; holdsShared = false; isAttached = false
  }
}

proctype Reader() {
  byte at = 0, header = 0;
  short seen = 0;
  recovered || living == 0;
  do
  :: atomic { at >= CELLS -> break }
  :: atomic { at < CELLS && log[at] == FREE && living == 0 -> break }
  :: atomic { at < CELLS && STATE(log[at]) == PADDING -> at++ }
  :: d_step {
       at < CELLS && STATE(log[at]) == PUBLISHED && recovered ->
       stale = REST(log[at]) == STALE;
       assert(!stale);
       seen = seen | (1 << REST(log[at]));
       at++
     }
  :: atomic { at < CELLS && STATE(log[at]) == CLAIMED && recovered -> header = log[at] };
     if
     :: atomic { log[at] != header -> header = 0 }
     :: atomic { slotHolder[SLOT(header)] == NOBODY || generation[SLOT(header)] != GENERATION(header) };
        atomic { if :: log[at] == header -> at++ :: else -> skip fi; header = 0 }
     fi
  :: atomic { !recovered && living == 0 -> goto over }
  od;
  atomic {
    lost = (published & ~seen) != 0;
    assert(!lost)
#ifdef WITNESS
    ;
    /* Not a defect: recovery after a cut, then deaths, then recovery that pads a hole, then an append, in one run. */
    witness = deathRecoveries > 0 && padded > 0 && published > (1 << OLD);
    assert(!witness)
#endif
  };
over:
  atomic { at = 0; header = 0; seen = 0 }
}

init {
  atomic {
    byte id = 1;
    log[0] = HEADER(PUBLISHED, OLD);
    log[1] = HEADER(CLAIMED, OWNER(0, 3));
    log[2] = HEADER(PUBLISHED, STALE);
    do :: id <= PROCESSES -> run Process(id); id++ :: else -> break od;
    run Reader()
  }
}
