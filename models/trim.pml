/*
Removing segments beside consumers that move, and a power loss.

Models SegmentTrimmer and LogConsumer.TryStoreCursor in src/MappedFileQueues/Log. docs/DESIGN.md section 8. The log has two
segments, 0 and 1. A consumer stands at 1 and moves back to 0, or is opened at 0 for the first time; the trimmer wants to
remove segment 0. Stores and loads of one process are not reordered here: each side has a full fence between its store and
its load, and the variants leave one out.

Consumer: 1 store the cursor (0), 2 read the log start: 0 is fine, 1 means that it may be gone: then the consumer goes to 1.
          Perhaps 3 read segment 0, and commit 1 again.
Trimmer:  0 segment 0 has no file: nothing to do; the log start is recorded: 6; the log start alone says nothing, a trimmer may have died behind step 2;
          1 read the cursors; one at 0: the log start goes back to it; 2 raise the log start to 1; 3 read the cursors again; one at 0: the log
          start goes back; 4 sync the cursors; 5 record the log start on disk; 6 remove segment 0.
          Killed anywhere; then another one does the same.
Cut:      at any time. The cursor is then what was synced, or what was stored since; the log start is what was recorded; segment 0
          is gone, or back, or overwritten, if the trimmer has come to 6.

What must be true:
  lost     a consumer that was told that 0 is there finds it there;
  damage   after a cut, nothing that may be overwritten counts as the log;
  behind   after a cut, the cursor of a consumer that stood at 1 all the time, or was told that 0 is there and has committed 1
           since, does not stand before the log.

variant design                   holds
variant design-two-trimmers      holds               -DTRIMMERS=2
variant witness                  fails:witness       -DWITNESS
variant cursors-read-once        fails:lost          -DONE_LOOK
variant low-water-raised-last    fails:lost          -DRAISED_LAST
variant consumer-looks-first     fails:lost          -DLOOK_FIRST
variant low-water-not-recorded   fails:damage        -DNOT_RECORDED
variant recorded-after-removal   fails:damage        -DRECORDED_LATE
variant cursors-not-synced       fails:behind        -DNOT_SYNCED
variant synced-before-the-looks  fails:behind        -DSYNCED_FIRST
variant word-believed            fails:damage|lost   -DWORD_BELIEVED -DTRIMMERS=2
*/

#ifndef TRIMMERS
#define TRIMMERS 1
#endif

byte cursor = 1;
byte cursorOnDisk = 0;          /* an earlier position of the same consumer */
byte logStart = 0;
byte recorded = 0;
bool removed;
bool openLock;
bool moved;                     /* the consumer has stored 0 */
bool told;                      /* the consumer was told that segment 0 is there */
bool returned;                  /* and has committed 1 again */

bool lost; bool damage; bool behind; bool witness;

active proctype Consumer()
{
    byte low;
    if
    :: goto done                /* it does not move */
    :: skip
    fi;
#ifdef LOOK_FIRST
    low = logStart;
    atomic { moved = true; cursor = 0 };
#else
    atomic { moved = true; cursor = 0 };
    low = logStart;
#endif
    if
    :: low == 0 -> told = true
    :: else -> cursor = 1
    fi;
    atomic { lost = told && removed; assert(!lost) };
#ifdef WITNESS
    /* Not a defect: the consumer came too late, and the segment went. */
    atomic { witness = !told && removed && recorded == 1; assert(!witness) };
#endif
    if
    :: atomic { told -> returned = true; cursor = 1 }
    :: skip
    fi;
done:
    skip
}

active [TRIMMERS] proctype Trimmer()
{
    atomic { !openLock -> openLock = true };
    if
    :: removed -> goto done
    :: !removed && recorded == 1 -> goto remove
    :: else
    fi;
#ifdef WORD_BELIEVED
    if
    :: logStart == 1 -> goto remove
    :: else
    fi;
#endif
    if
    :: cursor == 0 -> logStart = 0; goto done
    :: else
    fi;
#ifdef SYNCED_FIRST
    cursorOnDisk = cursor;
    if
    :: cursor == 0 -> logStart = 0; goto done         /* it moved before the sync */
    :: else
    fi;
#endif
    if
    :: goto done                        /* killed */
    :: skip
    fi;
#ifndef RAISED_LAST
    logStart = 1;
#endif
#ifndef ONE_LOOK
    if
    :: cursor == 0 -> logStart = 0; goto done
    :: else
    fi;
#endif
#if !defined(NOT_SYNCED) && !defined(SYNCED_FIRST)
    cursorOnDisk = cursor;
#endif
    if
    :: goto done                        /* killed */
    :: skip
    fi;
#if !defined(NOT_RECORDED) && !defined(RECORDED_LATE)
    recorded = 1;
#endif
    if
    :: goto done                        /* killed */
    :: skip
    fi;
remove:
    atomic { removed = true; lost = told && cursor == 0; assert(!lost) };
#ifdef RECORDED_LATE
    recorded = 1;
#endif
#ifdef RAISED_LAST
    logStart = 1;
#endif
done:
    openLock = false
}

/* The system finds time for the cursor's page. */
active proctype WriteBack()
{
    cursorOnDisk = cursor
}

active proctype Cut()
{
    atomic
    {
        damage = removed && recorded == 0;
        assert(!damage);
        behind = recorded == 1 && cursorOnDisk == 0 && (!moved || returned);
        assert(!behind)
    }
}
