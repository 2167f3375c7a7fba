---------------------------- MODULE DeltaEntries ----------------------------
(* What features of a Delta table ask of each entry (docs/design/0351, 0359): ids of rows above a *)
(* mark that moves with them, which a row keeps in whatever file it is, and times that grow.      *)
(* Writers race for the next version, with clocks that differ; requests may arrive late; others   *)
(* reserve ids, let rows keep their ids from now on, or write a checkpoint, from which the table  *)
(* is read from then on.  Defences named in Off are off: each, taken away, breaks one.            *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS Writers, MaxVersions, MaxClock, Moves, Faults, MaxFaults, Off
VARIABLES
  log,    \* the entries so far: [ids, mark, time]; its length is the version
  held,   \* the mark that a reader of the table finds
  rows,   \* row -> [fresh, told]: its id by its place in its file, and the one that is told there
  kept,   \* whether rows keep their ids
  known,  \* row -> the id that it had when rows kept theirs first
  work,   \* what each writer has put together: [by, base, ids, mark, time, file], or none
  net,    \* requests on their way
  struck
vars == <<log, held, rows, kept, known, work, net, struck>>
On(d) == d \notin Off
Strike(name) == name \in Faults /\ struck < MaxFaults /\ struck' = struck + 1
(* A file of one row: a new one, or one that was read, with its id by its place then.             *)
NewRow == [row |-> 0, read |-> 0, told |-> 0, kept |-> FALSE]
None == [by |-> "", base |-> 0, ids |-> {}, mark |-> 0, time |-> 0, file |-> NewRow]
Last == log[Len(log)]
Max(a, b) == IF a > b THEN a ELSE b
IdOf(r) == IF rows[r].told # 0 THEN rows[r].told ELSE rows[r].fresh
Init ==
  /\ log = <<[ids |-> {1}, mark |-> 1, time |-> MaxClock]>> /\ held = 1
  /\ rows = <<[fresh |-> 1, told |-> 0]>> /\ kept = ("enable" \notin Faults)
  /\ known = IF kept THEN <<1>> ELSE <<>>
  /\ work = [w \in Writers |-> None] /\ net = {} /\ struck = 0
(* A row lands, or one that is live is written to another file, with the id that it has to keep.  *)
(* A file that was read in a table whose rows kept no ids fits no other (`TableState.row_ids`).   *)
Copy(r) == [row |-> r, read |-> rows[r].fresh, kept |-> kept,
            told |-> IF kept /\ On("copies tell ids") THEN IdOf(r) ELSE 0]
Files == {NewRow} \union {Copy(r) : r \in IF Moves THEN DOMAIN rows ELSE {}}
Fits(file) == IF file.row = 0 THEN TRUE
              ELSE /\ rows[file.row].fresh = file.read
                   /\ file.kept = kept \/ ~On("kept since read")
(* An entry of one row is put together from the version that was examined, at a clock's time.     *)
(* One that lost its race is put together anew, from the version it goes after then.              *)
Fresh(w, clock, file) ==
  [by |-> w, base |-> Len(log), ids |-> {held + 1}, file |-> file,
   mark |-> IF On("mark moves") THEN held + 1 ELSE held,
   time |-> IF On("later than before") THEN Max(clock, Last.time + 1) ELSE clock]
Makes(w) ==
  /\ Len(log) < MaxVersions
  /\ \E clock \in 1 .. MaxClock, file \in IF work[w] = None THEN Files ELSE {work[w].file} :
       /\ Fits(file)
       /\ work' = [work EXCEPT ![w] = IF @ = None \/ On("each attempt") THEN Fresh(w, clock, file)
                                      ELSE [@ EXCEPT !.base = Len(log)]]
  /\ UNCHANGED <<log, held, rows, kept, known, net, struck>>
Asks(w) ==
  /\ work[w] # None /\ net' = net \union {work[w]}
  /\ UNCHANGED <<log, held, rows, kept, known, work, struck>>
Dies(w) ==
  /\ work[w] # None /\ work' = [work EXCEPT ![w] = None]
  /\ UNCHANGED <<log, held, rows, kept, known, net, struck>>
Put(file, id) ==
  LET placed == [fresh |-> id, told |-> file.told]
  IN  IF file.row = 0 THEN Append(rows, placed) ELSE [rows EXCEPT ![file.row] = placed]
Arrives ==
  \E r \in net : \E id \in r.ids :
    /\ r.base = Len(log) \/ ~On("next version")
    /\ Len(log) < MaxVersions
    /\ log' = Append(log, [ids |-> r.ids, mark |-> r.mark, time |-> r.time])
    /\ rows' = Put(r.file, id)
    /\ known' = IF kept /\ r.file.row = 0 THEN Append(known, id) ELSE known
    /\ held' = r.mark /\ net' = net \ {r}
    /\ work' = [work EXCEPT ![r.by] = IF @ = r THEN None ELSE @]
    /\ UNCHANGED <<kept, struck>>
(* Another engine reserves ids in an entry without rows, or lets rows keep theirs; a checkpoint   *)
(* has what it kept.                                                                              *)
Silent(mark) == Append(log, [ids |-> {}, mark |-> mark, time |-> Last.time + 1])
Reserves ==
  /\ Strike("reserve") /\ Len(log) < MaxVersions
  /\ log' = Silent(held + 2) /\ held' = held + 2 /\ UNCHANGED <<rows, kept, known, work, net>>
Enables ==
  /\ Strike("enable") /\ ~kept /\ Len(log) < MaxVersions
  /\ kept' = TRUE /\ known' = [r \in DOMAIN rows |-> IdOf(r)]
  /\ log' = Silent(held) /\ UNCHANGED <<held, rows, work, net>>
Checkpoints ==
  /\ Strike("checkpoint") /\ held' = IF On("domains kept") THEN held ELSE 0
  /\ UNCHANGED <<log, rows, kept, known, work, net>>
Next == \/ \E w \in Writers : Makes(w) \/ Asks(w) \/ Dies(w)
        \/ Arrives \/ Reserves \/ Enables \/ Checkpoints
Spec == Init /\ [][Next]_vars
(* What must never be. R1: two rows have one id, or an id is above the mark.  R2: a version is not*)
(* later than the one before.  R3: a row has another id than it had.                              *)
R1_Ids == /\ \A i, j \in 1 .. Len(log) : i # j => log[i].ids \intersect log[j].ids = {}
          /\ \A i \in 1 .. Len(log) : \A id \in log[i].ids : id <= log[i].mark
          /\ \A r, s \in DOMAIN rows : r # s => IdOf(r) # IdOf(s)
R2_Times == \A i \in 2 .. Len(log) : log[i - 1].time < log[i].time
R3_Kept == \A r \in DOMAIN known : IdOf(r) = known[r]
=============================================================================
