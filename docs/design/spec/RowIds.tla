------------------------------- MODULE RowIds -------------------------------
(* What row ids add to maintenance (Maintain.tla, which says when a rearrangement may land): a row *)
(* of Iceberg's third format keeps the id that it was given once.  No file needs to hold ids: the  *)
(* list of a commit gives each manifest those from `first` on that has none yet, an entry without  *)
(* a first id of its own takes the next of its manifest, and rows take those of their entry by     *)
(* their places (docs/design/0247, 0359).  One table; another branch of it takes ids, too.         *)
(* Defences named in Off are off: each, taken away, breaks an invariant.                           *)
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS
  Rows,         \* how many rows land, one a commit
  MaxCommits,   \* of the table
  MaxJobs,      \* how often files are written again
  Begins,       \* the format that the table has at first: 2 has no ids
  Off
VARIABLES
  tab,    \* [head, format, given, next, mans]: given: the head has ids; a set of manifests
  disk,   \* file -> <<[row, id]>>: what it holds; id 0: none is written
  dead,   \* rows that are deleted
  job,    \* a rearrangement: [ph, in, file, given, staged]
  net,    \* its request, as it was built: none, or one
  ghost   \* [known: row -> the id it had first; away: ids of the other branch]
vars == <<tab, disk, dead, job, net, ghost>>
On(d) == d \notin Off     Range(f) == {f[i] : i \in DOMAIN f}
(* A manifest: [first, entries]; an entry: [file, first]; 0: it has none.                          *)
Inherits(m, i) == m.entries[i].first = 0
RECURSIVE Before(_, _)
Before(m, i) ==   \* how many ids of a manifest go to entries before the i-th
  IF i = 1 THEN 0
  ELSE Before(m, i - 1) + IF Inherits(m, i - 1) THEN Len(disk[m.entries[i - 1].file]) ELSE 0
First(m, i) == IF ~Inherits(m, i) THEN m.entries[i].first
               ELSE IF m.first = 0 THEN 0 ELSE m.first + Before(m, i)
IdAt(file, first, p) == IF disk[file][p].id # 0 THEN disk[file][p].id
                        ELSE IF first = 0 THEN 0 ELSE first + p - 1
Places(mans) == {<<m, i, p>> \in mans \X (1 .. Rows) \X (1 .. Rows) :
                   i \in DOMAIN m.entries /\ p \in DOMAIN disk[m.entries[i].file]}
Ids(mans) ==   \* <<row, id>> of all rows that are live
  {<<disk[x[1].entries[x[2]].file][x[3]].row,
     IdAt(x[1].entries[x[2]].file, First(x[1], x[2]), x[3])>> :
     x \in {x \in Places(mans) : disk[x[1].entries[x[2]].file][x[3]].row \notin dead}}
Files(mans) == UNION {{e.file : e \in Range(m.entries)} : m \in mans}
RECURSIVE Sum(_)
Sum(entries) == IF entries = <<>> THEN 0 ELSE Len(disk'[Head(entries).file]) + Sum(Tail(entries))
RECURSIVE Listed(_, _)
Listed(mans, next) ==   \* the manifests as a list has them, and the next id afterwards
  LET bare == {m \in mans : m.first = 0} IN
  IF bare = {} THEN [mans |-> mans, next |-> next]
  ELSE LET m == CHOOSE m \in bare : TRUE
       IN  Listed((mans \ {m}) \union {[m EXCEPT !.first = next]}, next + Sum(m.entries))
Committed(mans, next) ==
  LET listed == IF tab.format = 3 THEN Listed(mans, next) ELSE [mans |-> mans, next |-> next]
  IN  [tab EXCEPT !.head = @ + 1, !.mans = listed.mans, !.next = listed.next,
                  !.given = tab.format = 3]
Existing(m, i) ==   \* an entry as it is written again
  [m.entries[i] EXCEPT !.first = IF On("entries keep ids") THEN First(m, i) ELSE 0]
NewFile == 1 + Cardinality(DOMAIN disk)
Put(file, held) == [f \in DOMAIN disk \union {file} |-> IF f = file THEN held ELSE disk[f]]
Fresh(file) == [first |-> 0, entries |-> <<[file |-> file, first |-> 0]>>]
NoJob == [ph |-> "idle", in |-> {}, file |-> 0, given |-> FALSE, staged |-> {}]
Init ==
  /\ tab = [head |-> 0, format |-> Begins, given |-> FALSE, next |-> 1, mans |-> {}]
  /\ disk = [f \in {} |-> <<>>] /\ dead = {} /\ job = NoJob /\ net = {}
  /\ ghost = [known |-> [r \in {} |-> 0], away |-> {}]
Room == tab.head < MaxCommits
(* Whoever lands: a row in a file; manifests are merged; a row is deleted; the table is upgraded.  *)
Landed == Cardinality({r \in 1 .. Rows : \E f \in DOMAIN disk : \E h \in Range(disk[f]) : h.row = r})
Lands ==
  /\ Room /\ Landed < Rows
  /\ disk' = Put(NewFile, <<[row |-> Landed + 1, id |-> 0]>>)
  /\ tab' = Committed(tab.mans \union {Fresh(NewFile)}, tab.next)
  /\ UNCHANGED <<dead, job, net>>
RECURSIVE Joined(_)
Joined(mans) == IF mans = {} THEN <<>>
  ELSE LET m == CHOOSE m \in mans : TRUE
       IN  [i \in DOMAIN m.entries |-> Existing(m, i)] \o Joined(mans \ {m})
Merge ==
  /\ Room /\ Cardinality(tab.mans) > 1
  /\ disk' = disk
  /\ tab' = Committed({[first |-> 0, entries |-> Joined(tab.mans)]}, tab.next)
  /\ UNCHANGED <<dead, job, net>>
Delete == /\ \E x \in Ids(tab.mans) : dead' = dead \union {x[1]}
          /\ Cardinality(dead) = 0 /\ UNCHANGED <<tab, disk, job, net>>
Upgrade == /\ tab.format = 2 /\ tab' = [tab EXCEPT !.format = 3]
           /\ UNCHANGED <<disk, dead, job, net>>
Away ==   \* a commit on another branch: the table's next id moves, our head does not
  /\ tab.format = 3 /\ ghost.away = {} /\ tab' = [tab EXCEPT !.next = @ + 1]
  /\ UNCHANGED <<disk, dead, job, net>>
(* A rearrangement: live rows of some files are written to one, with the ids that they had when    *)
(* they were read; then manifests in the place of those that its files are in; then it is sent.    *)
RECURSIVE Held(_)
Held(found) == IF found = {} THEN <<>>
  ELSE LET x == CHOOSE x \in found : \A y \in found : x[1] <= y[1]
       IN  <<[row |-> x[1], id |-> IF On("ids written") THEN x[2] ELSE 0]>> \o Held(found \ {x})
LiveIn(in) == {x \in Ids(tab.mans) : \E f \in in : \E h \in Range(disk[f]) : h.row = x[1]}
Rewrite ==
  /\ job.ph = "idle" /\ Cardinality(DOMAIN disk) < Rows + MaxJobs
  /\ \E in \in SUBSET Files(tab.mans) :
       /\ in # {} /\ LiveIn(in) # {}
       /\ disk' = Put(NewFile, Held(LiveIn(in)))
       /\ job' = [NoJob EXCEPT !.ph = "written", !.in = in, !.file = NewFile, !.given = tab.given]
  /\ UNCHANGED <<tab, dead, net>>
Touched == {m \in tab.mans : \E e \in Range(m.entries) : e.file \in job.in}
Indexed(m) == [i \in DOMAIN m.entries |-> Existing(m, i)]
Without(m) == [first |-> 0, entries |-> SelectSeq(Indexed(m), LAMBDA e : e.file \notin job.in)]
Fits == job.in \subseteq Files(tab.mans) /\ (job.given = tab.given \/ ~On("ids as read"))
Send ==
  /\ job.ph = "written" /\ Fits /\ net = {}
  /\ net' = {[head |-> tab.head, next |-> tab.next, mans |->
       (tab.mans \ Touched) \union {Fresh(job.file)}
         \union {m \in {Without(m) : m \in Touched} : m.entries # <<>>}]}
  /\ UNCHANGED <<tab, disk, dead, job>>
Arrives ==
  /\ net' = {} /\ job' = NoJob /\ UNCHANGED <<disk, dead>>
  /\ \E r \in net : /\ r.head = tab.head /\ Room
                    /\ r.next = tab.next \/ ~On("next id")
                    /\ tab' = Committed(r.mans, r.next)
GivenUp == /\ job.ph = "written" /\ (~Fits \/ \E r \in net : r.head # tab.head \/ r.next # tab.next)
           /\ net' = {} /\ job' = IF Fits THEN job ELSE NoJob
           /\ UNCHANGED <<tab, disk, dead>>
Seen ==   \* the id that a row has when it has one first is its id
  LET now == {x \in Ids(tab.mans)' : x[2] # 0}
      new == {x \in now : x[1] \notin DOMAIN ghost.known}
  IN  ghost' = [known |-> [r \in DOMAIN ghost.known \union {x[1] : x \in new} |->
                  IF r \in DOMAIN ghost.known THEN ghost.known[r]
                  ELSE CHOOSE i \in {x[2] : x \in new} : <<r, i>> \in new],
                away |-> IF tab'.next > tab.next /\ tab'.head = tab.head THEN {tab.next}
                         ELSE ghost.away]
Next == /\ \/ Lands \/ Merge \/ Delete \/ Upgrade \/ Away
           \/ Rewrite \/ Send \/ Arrives \/ GivenUp
        /\ Seen
Spec == Init /\ [][Next]_vars
(* R1: a row has the id that it was given first.  R2: no id is given to two rows, on no branch.    *)
R1_Kept == \A x \in Ids(tab.mans) : x[1] \in DOMAIN ghost.known => x[2] = ghost.known[x[1]]
R2_Once == /\ \A x, y \in Ids(tab.mans) : x[2] = y[2] /\ x[2] # 0 => x[1] = y[1]
           /\ \A x \in Ids(tab.mans) : x[2] \notin ghost.away
=============================================================================
