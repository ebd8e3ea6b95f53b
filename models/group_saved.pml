/*
What a power loss leaves of a group (src/MappedFileQueues/Log/GroupFiles): saves, removals, and power losses, of which one may
come while the group is made anew after another. Each message is a segment of its own. A hand-out and an end are one step each,
and messages end in their order: lease.pml has the rest.

Save:       1 take the lock; 2 read the end of next, and what is done; 3 write a new file, sync it, and give it the copy's name;
            4 flush the folder. What had ended before the call survives from then on. Killed after each: the lock is free, and
            until 4 nobody knows which copy has its name on disk.
Remove:     1 raise the log start to a limit, at most to the group's floor; 2 save the group; if the copy's floor is not below
            the limit, flush the folder only; 3 record the limit on disk; then the segments go. Killed after each.
Write back: the system may write a page of the mapped table, or the folder, at any time.
Power loss: what was flushed of the log is there, and perhaps more; what is before the recorded limit is gone. Recovery: 1 read
            the copy, and clamp it to the tail; 2 write that in its place; 3 make the table of it. Then messages are appended,
            and handed out.

What must be true, whatever power losses come:
  lost     what is appended, or is there and has not ended, is not done and not before the end of next, unless it is out;
  behind   the floor is not below the recorded log start: the group would be one that was dropped, though removals wait for it;
  again    what had ended before a save that has returned does not come again.

variant design             holds
variant design-two-saves   full-holds         -DSAVES=2 -DREMOVALS=2
variant witness            fails:witness      -DWITNESS
variant live-believed      fails:behind|lost  -DLIVE_BELIEVED
variant not-clamped        fails:lost         -DNOT_CLAMPED
variant copy-not-clamped   fails:lost         -DCOPY_NOT_CLAMPED
variant removal-unsaved    fails:behind       -DREMOVAL_UNSAVED
variant recorded-first     fails:behind       -DRECORDED_FIRST
variant name-not-flushed   fails:behind       -DNAME_NOT_FLUSHED
variant scanned-unlocked   fails:behind       -DSCANNED_UNLOCKED
variant folder-not-flushed fails:again        -DFOLDER_NOT_FLUSHED -DREMOVALS=0
*/
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef SAVES
#define SAVES 1
#endif
#ifndef REMOVALS
#define REMOVALS 1
#endif
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* Each is a number of messages, from the first one on. */
byte tail, flushed;                /* published; on disk */
byte recorded;                     /* removed, as it is on disk */
byte ended;                        /* the truth: those that are there, or are removed, and have ended */
byte kept;                         /* had ended before a save that has returned */
byte next, done;                   /* the mapped table: handed out; done */
byte copyNext, copyDone;           /* the copy that has the name */
byte diskNext, diskDone;           /* the copy that has the name on disk */
#ifdef LIVE_BELIEVED
byte pageNext, pageDone;           /* the table's pages, as they were written back */
#endif
bool locked;                       /* the lock of saves */
bool isDown;                       /* the power is lost; everybody begins anew when the group is there again */
byte losses, saves, removals;
bool isCut;                        /* a power loss took messages */
bool lost, behind, again, witness;

inline check_group() {
  if :: done < recorded -> behind = true :: else -> skip fi;
  if :: MIN(done, tail) > ended -> lost = true :: else -> skip fi;
  if :: kept > done -> again = true :: else -> skip fi;
  assert(!behind);
  assert(!lost);
  assert(!again)
}

/* Appends, flushes, takes and ends messages; the system writes back. */
active proctype Worker()
{
end:
  do
  :: atomic { !isDown && tail < MESSAGES ->
       if :: next > tail -> lost = true :: else -> skip fi;
       assert(!lost);
       tail++ }
  :: atomic { !isDown && flushed < tail -> flushed = tail }
  :: atomic { !isDown && next < tail -> next++ }
  :: atomic { !isDown && done < next -> done++; ended = MAX(ended, done) }
  :: atomic { !isDown && (diskNext != copyNext || diskDone != copyDone) -> diskNext = copyNext; diskDone = copyDone }
#ifdef LIVE_BELIEVED
  :: atomic { !isDown && pageNext != next -> pageNext = next }
  :: atomic { !isDown && pageDone != done -> pageDone = done }
#endif
  od
}

/* Whoever dies in a step lets go of the lock. */
#define MAY_DIE if :: true -> skip :: goto over fi

inline save(n, d, has) {
#ifdef SCANNED_UNLOCKED
  atomic { n = next; d = done };
  atomic { !locked -> locked = true; has = true };
#else
  atomic { !locked -> locked = true; has = true; n = next; d = done };
#endif
  atomic { copyNext = n; copyDone = d; n = 0; d = 0 };
  MAY_DIE;
  atomic {
#ifndef FOLDER_NOT_FLUSHED
    diskNext = copyNext; diskDone = copyDone;
#endif
    locked = false; has = false
  }
}

active proctype Saver()
{
  byte n, d, promised, boot;
  bool has;
end:
  do
  :: atomic { !isDown && saves < SAVES -> saves++; promised = done; boot = losses };
     {
       save(n, d, has);
       atomic { kept = MAX(kept, promised) };
over:  skip
     } unless { losses != boot };
     atomic {
       if :: has && losses == boot -> locked = false :: else -> skip fi;
       has = false; n = 0; d = 0; promised = 0; boot = 0
     }
  od
}

active proctype Remover()
{
  byte n, d, limit, boot;
  bool has;
end:
  do
  :: atomic { !isDown && removals < REMOVALS && done > recorded -> removals++; boot = losses;
       if :: limit = done :: done > recorded + 1 -> limit = done - 1 fi };
     {
#ifdef RECORDED_FIRST
       recorded = limit;
       MAY_DIE;
#endif
#ifndef REMOVAL_UNSAVED
       if
#ifdef NAME_NOT_FLUSHED
       :: copyDone >= limit -> skip
#else
       :: atomic { copyDone >= limit -> diskNext = copyNext; diskDone = copyDone }
#endif
       :: else -> save(n, d, has)
       fi;
       MAY_DIE;
#endif
       recorded = limit;
over:  skip
     } unless { losses != boot };
     atomic { if :: has && losses == boot -> locked = false :: else -> skip fi; has = false; n = 0; d = 0; limit = 0; boot = 0 }
  od
}

active proctype Power()
{
  byte n, d;
end:
  do
  :: losses < LOSSES ->
     atomic {
       losses++;
       isDown = true;
       locked = false;
lose:
       copyNext = diskNext;
       copyDone = diskDone;
       /* The log ends anywhere after what was flushed, or recorded. */
       do
       :: tail > flushed && tail > recorded -> tail--; isCut = true
       :: break
       od;
       flushed = tail;
       ended = MIN(ended, tail);
       kept = MIN(kept, tail);
       n = copyNext;
       d = copyDone;
#ifndef NOT_CLAMPED
       n = MIN(n, tail);
       d = MIN(d, tail)
#endif
     };
#ifdef LIVE_BELIEVED
     atomic { n = pageNext; d = MIN(pageDone, n) };
#else
#ifndef COPY_NOT_CLAMPED
     atomic { copyNext = n; copyDone = d };
     if
     :: atomic { losses < LOSSES -> losses++; goto lose }
     :: atomic { true -> diskNext = n; diskDone = d }
     fi;
#endif
     if
     :: atomic { losses < LOSSES -> losses++; goto lose }
     :: true -> skip
     fi;
#endif
     atomic {
       next = n; done = d; n = 0; d = 0;
       check_group();
#ifdef WITNESS
       if :: losses == LOSSES && isCut && recorded > 0 && kept > 0 && done < next -> witness = true; assert(!witness)
       :: else -> skip fi;
#endif
       isDown = false
     }
  od
}
