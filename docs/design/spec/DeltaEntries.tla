---------------------------- MODULE DeltaEntries ----------------------------
(* What features of a Delta table ask of each entry (docs/design/0351): ids of rows above a mark  *)
(* that moves with them, and times that grow.  Writers race for the next version, with clocks that*)
(* differ; requests may arrive late; others reserve ids, or write a checkpoint, from which the    *)
(* table is read from then on.  Defences named in Off are off: each, taken away, breaks one.      *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS Writers, MaxVersions, MaxClock, Faults, MaxFaults, Off
VARIABLES
  log,    \* the entries so far: [ids, mark, time]; its length is the version
  held,   \* the mark that a reader of the table finds
  work,   \* what each writer has put together: [by, base, ids, mark, time], or none
  net,    \* requests on their way
  struck
vars == <<log, held, work, net, struck>>
On(d) == d \notin Off
Strike(name) == name \in Faults /\ struck < MaxFaults /\ struck' = struck + 1
None == [by |-> "", base |-> 0, ids |-> {}, mark |-> 0, time |-> 0]
Last == log[Len(log)]
Max(a, b) == IF a > b THEN a ELSE b
Init ==
  /\ log = <<[ids |-> {1}, mark |-> 1, time |-> MaxClock]>> /\ held = 1
  /\ work = [w \in Writers |-> None] /\ net = {} /\ struck = 0
(* An entry of one row is put together from the version that was examined, at a clock's time.     *)
(* One that lost its race is put together anew, from the version it goes after then.              *)
Fresh(w, clock) ==
  [by |-> w, base |-> Len(log), ids |-> {held + 1},
   mark |-> IF On("mark moves") THEN held + 1 ELSE held,
   time |-> IF On("later than before") THEN Max(clock, Last.time + 1) ELSE clock]
Makes(w) ==
  /\ Len(log) < MaxVersions
  /\ \E clock \in 1 .. MaxClock :
       work' = [work EXCEPT ![w] = IF @ = None \/ On("each attempt") THEN Fresh(w, clock)
                                   ELSE [@ EXCEPT !.base = Len(log)]]
  /\ UNCHANGED <<log, held, net, struck>>
Asks(w) ==
  /\ work[w] # None /\ net' = net \union {work[w]}
  /\ UNCHANGED <<log, held, work, struck>>
Dies(w) ==
  /\ work[w] # None /\ work' = [work EXCEPT ![w] = None]
  /\ UNCHANGED <<log, held, net, struck>>
Arrives ==
  \E r \in net :
    /\ r.base = Len(log) \/ ~On("next version")
    /\ Len(log) < MaxVersions
    /\ log' = Append(log, [ids |-> r.ids, mark |-> r.mark, time |-> r.time])
    /\ held' = r.mark /\ net' = net \ {r}
    /\ work' = [work EXCEPT ![r.by] = IF @ = r THEN None ELSE @]
    /\ UNCHANGED struck
(* Another engine reserves ids in an entry without rows; a checkpoint has what it kept.           *)
Reserves ==
  /\ Strike("reserve") /\ Len(log) < MaxVersions
  /\ log' = Append(log, [ids |-> {}, mark |-> held + 2, time |-> Last.time + 1])
  /\ held' = held + 2 /\ UNCHANGED <<work, net>>
Checkpoints ==
  /\ Strike("checkpoint") /\ held' = IF On("domains kept") THEN held ELSE 0
  /\ UNCHANGED <<log, work, net>>
Next == \/ \E w \in Writers : Makes(w) \/ Asks(w) \/ Dies(w)
        \/ Arrives \/ Reserves \/ Checkpoints
Spec == Init /\ [][Next]_vars
(* What must never be. R1: two rows have one id, or an id is above the mark.  R2: a version is not*)
(* later than the one before.                                                                     *)
R1_Ids == /\ \A i, j \in 1 .. Len(log) : i # j => log[i].ids \intersect log[j].ids = {}
          /\ \A i \in 1 .. Len(log) : \A id \in log[i].ids : id <= log[i].mark
R2_Times == \A i \in 2 .. Len(log) : log[i - 1].time < log[i].time
=============================================================================
