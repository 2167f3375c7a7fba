------------------------------ MODULE Maintain ------------------------------
(* What maintenance adds to the commit protocol (Penstock.tla): files are rearranged, snapshots   *)
(* expire, files that nothing names are deleted.  A maintenance commit claims nothing: it changes *)
(* no ledger, needs no fence, may be made by anybody at any time, and yields to whatever lands.   *)
(* One table, one chain.  Whoever maintains may sleep between any two steps, for ever.  Defences  *)
(* named in Off are off: each, taken away, breaks an invariant.                                   *)
(* A row is the record it is of, 1 .. Landings; one of another writer is 90, of another store 80. *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS
  Acts,        \* what is maintained: "rearrange", "expire", "sweep"
  Landings,    \* how many records the pipeline lands, one a commit
  Deletes,     \* the records that delete row 1, as in a keyed table: their commits have no file
  MaxSnaps,    \* of the table
  Faults, MaxFaults, Off
VARIABLES
  tab,    \* [head, snaps, refs, era, offs, changed]: the ledger is a property, as the era is
  disk,   \* file -> its rows, of files that are there
  store,  \* files that rows of the pending store name
  land,   \* the pipeline: [ph, file]
  other,  \* a former life of the pipeline, whose store nobody sees any more: [ph, file, base]
  job,    \* a rearrangement: [ph, in, rows, file, dead, era, base]
  exp,    \* an expiry: [ph, head, refs, gone]
  sweep,  \* [ph, listed, noted, kept]: noted are files, each with what had landed then
  ghost,  \* [truth: the rows that are live; made: files of rearrangements; calm; struck]
  broken
vars == <<tab, disk, store, land, other, job, exp, sweep, ghost, broken>>
On(d) == d \notin Off     Strike(name) == name \in Faults /\ ghost.struck < MaxFaults
Range(f) == {f[i] : i \in DOMAIN f}     Max(S) == CHOOSE x \in S : \A y \in S : y <= x
(* A snapshot: its parent, whether the metadata still has it, what ledger it vouches for (-1:     *)
(* none), the ledger of its line (ghost), and its files: [id, by, dead, struck]: the snapshot that*)
(* added it, the rows that row deletes name, and the snapshots that wrote these.                  *)
N == Len(tab.snaps)     Offsets == tab.offs     None == [head |-> 0, n |-> 0]
FilesAt(i) == IF i = 0 THEN {} ELSE tab.snaps[i].files     Files == FilesAt(tab.head)
OffsAt(i) == IF i = 0 THEN 0 ELSE tab.snaps[i].offs
Kept == {i \in 1 .. N : tab.snaps[i].kept}
Named(S) == UNION {{f.id : f \in tab.snaps[i].files} : i \in S}
Live(files) == UNION {disk[f.id] \ f.dead : f \in {f \in files : f.id \in DOMAIN disk}}
Times(files, x) == Cardinality({f \in files : f.id \in DOMAIN disk /\ x \in disk[f.id] \ f.dead})
RECURSIVE Line(_), Voucher(_)
Line(i) == IF i = 0 THEN {} ELSE {i} \union Line(tab.snaps[i].par)
Voucher(i) ==   \* the nearest snapshot that vouches; 0: there is none; -1: cut off by expiry
  IF i = 0 THEN 0 ELSE IF ~tab.snaps[i].kept THEN -1
  ELSE IF tab.snaps[i].says >= 0 THEN i ELSE Voucher(tab.snaps[i].par)
Verdict ==   \* the last witness is a file, or row deletes, of the commit that changed rows last
  LET i == Voucher(tab.head) IN
  CASE i > 0 /\ tab.snaps[i].says = tab.offs -> "agreed"
    [] tab.offs = 0 -> "agreed"
    [] i >= 0 -> "rolled back"
    [] \E f \in Files : tab.changed \in {f.by} \union f.struck -> "guessed"
    [] OTHER -> "uncertain"
Sound == \/ Verdict = "agreed"
         \/ ~On("sound before") /\ Verdict = "rolled back"
         \/ ~On("certain before") /\ Verdict \in {"guessed", "uncertain"}
Base == [head |-> tab.head, n |-> N]     \* a request is numbered: a rollback re-arms none
Moved(says, offs, files) == [tab EXCEPT !.head = N + 1, !.offs = offs, !.snaps = Append(@,
  [par |-> tab.head, kept |-> TRUE, says |-> says, offs |-> offs, files |-> files])]
Room == N < MaxSnaps     NewId == 1 + Max({0} \union DOMAIN disk \union ghost.made
                                       \union Named(1 .. N) \union {land.file, other.file})
Put(id, rows) == [f \in DOMAIN disk \union {id} |-> IF f = id THEN rows ELSE disk[f]]
NewFile(id) == [id |-> id, by |-> N + 1, dead |-> {}, struck |-> {}]
NoLanding == [ph |-> "idle", file |-> 0]
Idle == [ph |-> "idle", file |-> 0, base |-> None]
NoJob ==
  [ph |-> "idle", in |-> {}, rows |-> <<>>, file |-> 0, era |-> 0, base |-> None, dead |-> {}]
NoExpiry == [ph |-> "idle", head |-> 0, refs |-> {}, gone |-> {}]
NoSweep == [ph |-> "idle", listed |-> {}, noted |-> {}, kept |-> {}]
Init ==
  /\ tab = [head |-> 0, snaps |-> <<>>, refs |-> {}, era |-> 0, offs |-> 0, changed |-> 0]
  /\ disk = [f \in {} |-> {}] /\ store = {} /\ land = NoLanding
  /\ other = Idle /\ job = NoJob /\ exp = NoExpiry /\ sweep = NoSweep /\ broken = {}
  /\ ghost = [truth |-> {}, made |-> {}, calm |-> TRUE, struck |-> 0]
Breaks(name, bad) == IF bad THEN {name} ELSE {}
(* The pipeline: a file, its row in the store, the commit, and the row is settled.  The examined  *)
(* head and the compare-and-set are one step: a request that others overtook is made again.       *)
Record == IF tab.offs + 1 \in Deletes THEN tab.offs + 2 ELSE tab.offs + 1
Write ==   \* while a commit without a file may be on its way
  /\ land.ph = "idle" /\ Record <= Landings /\ Room
  /\ disk' = Put(NewId, {Record})
  /\ land' = [ph |-> IF "sweep" \in Acts THEN "written" ELSE "stored", file |-> NewId]
  /\ UNCHANGED <<tab, store, other, job, exp, sweep, ghost, broken>>
Prepare ==
  /\ land.ph = "written" /\ store' = {land.file} /\ land' = [land EXCEPT !.ph = "stored"]
  /\ UNCHANGED <<tab, disk, other, job, exp, sweep, ghost, broken>>
Struck(f) == IF f.id \in DOMAIN disk /\ 1 \in disk[f.id] \ f.dead
             THEN [f EXCEPT !.dead = @ \union {1}, !.struck = @ \union {N + 1}] ELSE f
Commit ==
  /\ Verdict \in {"agreed", "guessed"} /\ Room
  /\ \/ /\ land.ph = "stored" /\ tab.offs + 1 \notin Deletes
        /\ land' = IF "sweep" \in Acts THEN [land EXCEPT !.ph = "landed"] ELSE NoLanding
        /\ tab' = [Moved(tab.offs + 1, tab.offs + 1, Files \union {NewFile(land.file)})
                     EXCEPT !.changed = N + 1]
        /\ ghost' = [ghost EXCEPT !.truth = @ \union {tab.offs + 1}]
     \/ /\ land.ph # "landed" /\ tab.offs + 1 \in Deletes /\ UNCHANGED land
        /\ tab' = [Moved(tab.offs + 1, tab.offs + 1, {Struck(f) : f \in Files})
                     EXCEPT !.changed = IF 1 \in ghost.truth THEN N + 1 ELSE @]
        /\ ghost' = [ghost EXCEPT !.truth = @ \ {1}]
  /\ UNCHANGED <<disk, store, other, job, exp, sweep, broken>>
Settle ==
  /\ land.ph = "landed" /\ store' = {} /\ land' = NoLanding
  /\ UNCHANGED <<tab, disk, other, job, exp, sweep, ghost, broken>>
(* A former life, whose store is lost: one file, and requests, until a landing has fenced it.     *)
OtherWrites ==
  /\ Strike("other") /\ other.ph = "idle" /\ disk' = Put(NewId, {80})
  /\ other' = [Idle EXCEPT !.ph = "written", !.file = NewId]
  /\ ghost' = [ghost EXCEPT !.struck = @ + 1]
  /\ UNCHANGED <<tab, store, land, job, exp, sweep, broken>>
OtherSends ==
  /\ other.ph = "written" \/ (other.ph = "sent" /\ other.base # Base)
  /\ tab.offs = 0   \* no landing has fenced it
  /\ other.file \in DOMAIN disk   \* it was examined
  /\ other' = [other EXCEPT !.ph = "sent", !.base = Base]
  /\ UNCHANGED <<tab, disk, store, land, job, exp, sweep, ghost, broken>>
OtherLands ==
  /\ other.ph = "sent" /\ other.base = Base /\ Room
  /\ tab' = Moved(-1, tab.offs, Files \union {NewFile(other.file)})
  /\ other' = [Idle EXCEPT !.ph = "done"]
  /\ ghost' = [ghost EXCEPT !.truth = @ \union {80}]
  /\ UNCHANGED <<disk, store, land, job, exp, sweep, broken>>
(* A rearrangement: files of the head become one, and the same rows are live.  A single file, too:*)
(* one that landed without its partition is split by it.  What it becomes lands together or not at*)
(* all, and each row in it knows its place, so it is one file here.                               *)
Plan ==
  /\ "rearrange" \in Acts /\ job.ph = "idle" /\ Sound /\ Cardinality(ghost.made) < 2
  /\ \E S \in SUBSET Files :
       /\ Cardinality(S) \in {1, 2}
       /\ {f.id : f \in S} \subseteq DOMAIN disk
       /\ disk' = Put(NewId, Live(S))
       /\ job' = [NoJob EXCEPT !.ph = "staged", !.in = S, !.file = NewId, !.era = tab.era,
                               !.rows = [id \in {f.id : f \in S} |-> disk[id]]]
       /\ ghost' = [ghost EXCEPT !.made = @ \union {NewId}]
  /\ UNCHANGED <<tab, store, land, other, exp, sweep, broken>>
Now(f) == {g \in Files : g.id = f.id}     \* a file that was read, as the head has it
Applies(f) ==   \* are the row deletes those that were applied, or more that can be carried over?
  \A g \in Now(f) : \/ g.dead = f.dead
                    \/ f.dead \subseteq g.dead
                    \/ ~On("deletes equal") /\ g.dead \subseteq f.dead
Gone == {f \in job.in : Now(f) = {}}   \* their rows are wherever whoever took them put them
Later ==
  (IF On("deletes applied")
   THEN UNION {UNION {g.dead \ f.dead : g \in Now(f)} : f \in job.in} ELSE {})
  \union (IF On("inputs live") THEN UNION {job.rows[f.id] \ f.dead : f \in Gone} ELSE {})
Swap ==   \* the head is examined, and the request goes out
  /\ job.ph \in {"staged", "sent"} /\ Sound /\ job.base # Base
  /\ tab.era = job.era \/ ~On("era")
  /\ Gone # job.in /\ \A f \in job.in : Applies(f)
  /\ job' = [job EXCEPT !.ph = "sent", !.base = Base, !.dead = Later]
  /\ UNCHANGED <<tab, disk, store, land, other, exp, sweep, ghost, broken>>
Without(files) == {f \in files : f.id \notin {g.id : g \in job.in}}
Rearranged ==
  [NewFile(job.file) EXCEPT !.dead = job.dead, !.struck = IF job.dead = {} THEN {} ELSE {N + 1}]
Carried ==   \* does no file that stays bear what changed rows last?
  ~\E f \in Without(Files) : tab.changed \in {f.by} \union f.struck
SwapLands ==
  /\ job.ph = "sent" /\ job.base = Base /\ Room
  /\ tab' = [Moved(tab.offs, tab.offs, Without(Files) \union {Rearranged})
               EXCEPT !.changed = IF On("carried") /\ Carried /\ @ > 0 THEN N + 1 ELSE @,
                      !.snaps[N + 1].offs = OffsAt(tab.head)]
  /\ job' = NoJob
  /\ broken' = broken \union Breaks("M1", Live(tab'.snaps[N + 1].files) # ghost.truth)
  /\ UNCHANGED <<disk, store, land, other, exp, sweep, ghost>>
GiveUp == job.ph # "idle" /\ job' = NoJob
          /\ UNCHANGED <<tab, disk, store, land, other, exp, sweep, ghost, broken>>
(* An expiry: what refs hold stays, and all from the head down to the snapshot that vouches.      *)
Bridge == LET i == Voucher(tab.head)
          IN  IF i > 0 THEN Line(tab.head) \ (Line(tab.snaps[i].par)) ELSE Line(tab.head)
Expire ==
  /\ "expire" \in Acts /\ exp.ph = "idle" /\ Sound /\ N > 0
  /\ \E G \in SUBSET (Kept \ (tab.refs \union {tab.head})) :
       /\ G # {} /\ (On("bridge") => G \intersect Bridge = {})
       /\ exp' = [ph |-> "asked", head |-> tab.head, refs |-> tab.refs, gone |-> G]
  /\ UNCHANGED <<tab, disk, store, land, other, job, sweep, ghost, broken>>
Forgotten(G) == [i \in 1 .. N |-> IF i \in G THEN [tab.snaps[i] EXCEPT !.kept = FALSE]
                                  ELSE tab.snaps[i]]
ExpireLands ==
  /\ exp.ph = "asked" /\ exp' = NoExpiry
  /\ IF /\ exp.head = tab.head \/ ~On("head asserted")
        /\ exp.refs = tab.refs \/ ~On("refs asserted")
     THEN /\ tab' = [tab EXCEPT !.snaps = Forgotten(exp.gone)]
          /\ broken' = broken \union
               Breaks("M4", (tab.refs \union {tab.head}) \intersect exp.gone # {})
     ELSE UNCHANGED <<tab, broken>>
  /\ UNCHANGED <<disk, store, land, other, job, sweep, ghost>>
(* A sweep: list, store, table, in this order; then, where a rearrangement may have written what  *)
(* was noted, the era is raised; then store and table once more, and what nothing names goes.     *)
(* Files of the pipeline's open epoch are too young to be listed.                                 *)
Young == IF land.ph = "written" /\ On("young") THEN {land.file} ELSE {}
Landed == IF On("fenced since") THEN tab.offs ELSE N   \* else whatever commit counts
Know == IF On("all snapshots") THEN Kept ELSE Kept \intersect Line(tab.head)
List ==
  /\ "sweep" \in Acts /\ sweep.ph = "idle" /\ Sound
  /\ sweep' = [NoSweep EXCEPT !.ph = "listed", !.listed = DOMAIN disk \ Young]
  /\ sweep'.listed # {}
  /\ UNCHANGED <<tab, disk, store, land, other, job, exp, ghost, broken>>
Store ==
  /\ sweep.ph \in {"listed", "raised"}
  /\ sweep' = [sweep EXCEPT !.ph = IF @ = "listed" THEN "asked" ELSE "asked again",
                            !.kept = IF sweep.ph = "listed" \/ On("named again") THEN store ELSE @]
  /\ UNCHANGED <<tab, disk, store, land, other, job, exp, ghost, broken>>
Note ==
  /\ sweep.ph = "asked"
  /\ LET noted == {<<f, Landed>> : f \in sweep.listed \ (sweep.kept \union Named(Know))}
         rearranged == {f[1] : f \in noted} \intersect ghost.made # {}
     IN  sweep' = IF noted = {} THEN NoSweep
                  ELSE [sweep EXCEPT !.ph = IF rearranged /\ On("era") THEN "noted" ELSE "raised",
                                     !.noted = noted, !.kept = @ \union Named(Know)]
  /\ UNCHANGED <<tab, disk, store, land, other, job, exp, ghost, broken>>
Raise ==
  /\ sweep.ph = "noted" /\ Sound /\ Room
  /\ tab' = [Moved(tab.offs, tab.offs, Files) EXCEPT !.era = @ + 1,
                                                    !.snaps[N + 1].offs = OffsAt(tab.head)]
  /\ sweep' = [sweep EXCEPT !.ph = "raised"]
  /\ UNCHANGED <<disk, store, land, other, job, exp, ghost, broken>>
Look ==
  /\ sweep.ph = "asked again"
  /\ sweep' = [sweep EXCEPT !.ph = "sure", !.kept = @ \union
                 (IF On("named again") THEN Named(Know) ELSE {}),
                 !.noted = {f \in @ : f[1] \in ghost.made \/ f[2] < Landed}]
  /\ UNCHANGED <<tab, disk, store, land, other, job, exp, ghost, broken>>
Delete ==
  /\ sweep.ph = "sure" /\ sweep' = NoSweep
  /\ LET gone == {f[1] : f \in sweep.noted} \ sweep.kept
     IN  disk' = [f \in DOMAIN disk \ gone |-> disk[f]]
  /\ UNCHANGED <<tab, store, land, other, job, exp, ghost, broken>>
StopsSweep == sweep.ph # "idle" /\ sweep' = NoSweep
              /\ UNCHANGED <<tab, disk, store, land, other, job, exp, ghost, broken>>
(* Others: they append, delete rows, roll back, expire, and hold snapshots.                       *)
Struck1 == ghost' = [ghost EXCEPT !.struck = @ + 1]
Appends ==
  /\ Strike("append") /\ Room /\ 90 \notin UNION Range(disk)
  /\ disk' = Put(NewId, {90}) /\ tab' = Moved(-1, tab.offs, Files \union {NewFile(NewId)})
  /\ ghost' = [ghost EXCEPT !.struck = @ + 1, !.truth = @ \union {90}]
  /\ UNCHANGED <<store, land, other, job, exp, sweep, broken>>
Removes ==
  /\ Strike("delete") /\ Room
  /\ \E f \in Files : \E x \in disk[f.id] \ f.dead :
       /\ tab' = Moved(-1, tab.offs, (Files \ {f}) \union
                         {[f EXCEPT !.dead = @ \union {x}, !.struck = @ \union {N + 1}]})
       /\ ghost' = [ghost EXCEPT !.struck = @ + 1, !.truth = @ \ {x}]
  /\ UNCHANGED <<disk, store, land, other, job, exp, sweep, broken>>
RollsBack ==
  /\ Strike("rollback")
  /\ \E i \in Kept \ {tab.head} :
       /\ tab' = [tab EXCEPT !.head = i]
       /\ ghost' = [ghost EXCEPT !.struck = @ + 1, !.truth = Live(tab.snaps[i].files),
                                 !.calm = FALSE]
  /\ UNCHANGED <<disk, store, land, other, job, exp, sweep, broken>>
Compacts ==   \* their rows are the same, and no commit of ours is known by them
  /\ Strike("compact") /\ Room /\ Cardinality(Files) > 1 /\ Named({tab.head}) \subseteq DOMAIN disk
  /\ disk' = Put(NewId, Live(Files)) /\ tab' = Moved(-1, tab.offs, {NewFile(NewId)}) /\ Struck1
  /\ UNCHANGED <<store, land, other, job, exp, sweep, broken>>
Expires ==   \* all but the head and what refs hold
  /\ Strike("expire") /\ Kept \ ({tab.head} \union tab.refs) # {}
  /\ tab' = [tab EXCEPT !.snaps = Forgotten(Kept \ ({tab.head} \union tab.refs))] /\ Struck1
  /\ UNCHANGED <<disk, store, land, other, job, exp, sweep, broken>>
Holds ==   \* a ref is made, not in the second of a request, or moved, whenever
  /\ Strike("ref") /\ (tab.refs = {} => exp.ph = "idle")
  /\ \E i \in Kept \ tab.refs : tab' = [tab EXCEPT !.refs = {i}]
  /\ Struck1 /\ UNCHANGED <<disk, store, land, other, job, exp, sweep, broken>>
Next == \/ Write \/ Prepare \/ Commit \/ Settle \/ OtherWrites \/ OtherSends \/ OtherLands
        \/ Plan \/ Swap \/ SwapLands \/ GiveUp \/ Expire \/ ExpireLands
        \/ List \/ Store \/ Note \/ Raise \/ Look \/ Delete \/ StopsSweep
        \/ Appends \/ Removes \/ RollsBack \/ Compacts \/ Expires \/ Holds
Spec == Init /\ [][Next]_vars
(* What must never be. M1: a maintenance commit changes a row; what is live is not what landed, as*)
(* others changed it.  M2: it makes a verdict that is not true.  M3: a file is gone that a        *)
(* snapshot or the store names.  M4: a snapshot is gone that somebody holds.  M5: nobody did harm,*)
(* and the witnesses do not agree.                                                                *)
M1_Rows == "M1" \notin broken /\ (Named(Kept) \subseteq DOMAIN disk => Live(Files) = ghost.truth
             /\ \A x \in ghost.truth : Times(Files, x) = 1)
M2_Verdict == (Verdict = "agreed" => OffsAt(tab.head) = tab.offs)
M3_Files == Named(Kept) \union store \subseteq DOMAIN disk
M4_Refs == "M4" \notin broken
M5_Witnesses == ghost.calm => Verdict \in {"agreed", "guessed"}
=============================================================================
