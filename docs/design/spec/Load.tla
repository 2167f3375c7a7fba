-------------------------------- MODULE Load --------------------------------
(* What `penstock load --replace` adds to the commit protocol (Penstock.tla): the files of a      *)
(* partition, or all files, are replaced in one commit that moves no position.  Which files go is *)
(* said by the partition, which records come by the rows in them.  One table, one chain; a person *)
(* loads as often as he likes and may die at any step, and his requests arrive late, or again.    *)
(* Defences named in Off are off: each, taken away, breaks an invariant.                          *)
EXTENDS Integers, FiniteSets
CONSTANTS
  N,           \* records in the log, 1 .. N; a row of another writer is 90
  Landed0,     \* how many of them have landed, one a file, by the former rules
  Whole,       \* all files are loaded, else those of partition 1
  MaxLoads, Faults, MaxFaults, Off
VARIABLES
  tab,    \* [ver, files, offs]: a file is [id, part, rows, dead, now], now are by the
          \* present rules
  log,    \* the records that Kafka has
  load,   \* the person: [ph, base, gone, only, rest, out, left]
  net,    \* requests: [base, gone, out]
  ghost,  \* [truth: the rows that must be there; next, struck]
  broken
vars == <<tab, log, load, net, ghost, broken>>
On(d) == d \notin Off     Strike(name) == name \in Faults /\ ghost.struck < MaxFaults
Struck == [ghost EXCEPT !.struck = @ + 1, !.next = @ + 1]
P == 1     LATE == 9
(* Rules say which partition a record belongs to; they have changed since: of the first two, each *)
(* belongs where the other one did.                                                               *)
Former(x) == x % 2     Present(x) == CASE x = 1 -> 0 [] x = 2 -> 1 [] OTHER -> x % 2
Live(f) == f.rows \ f.dead
AllLive(files) == UNION {Live(f) : f \in files}
Times(files, x) == Cardinality({f \in files : x \in Live(f)})
File(id, part, rows, now) == [id |-> id, part |-> part, rows |-> rows, dead |-> {}, now |-> now]
(* What lands again goes where it belongs now: a file for each partition.                         *)
Written(id, rows) == {File(10 * id + p, p, {x \in rows : Present(x) = p}, rows)
                        : p \in {Present(x) : x \in rows}}
Idle(left) == [ph |-> "idle", base |-> 0, gone |-> {}, only |-> {}, rest |-> {},
               out |-> {}, left |-> left]
Init ==
  /\ tab = [ver |-> 1, offs |-> Landed0,
            files |-> {File(x, Former(x), {x}, {}) : x \in 1 .. Landed0}]
  /\ log = 1 .. N /\ load = Idle(MaxLoads) /\ net = {} /\ broken = {}
  /\ ghost = [truth |-> 1 .. Landed0, next |-> N + 1, struck |-> 0]
(* The person looks at the table: files, and the records of their rows.  Rows of others, and rows *)
(* that may be of the partition and are in no file of it, end it.                                 *)
Chosen == IF Whole THEN tab.files ELSE {f \in tab.files : f.part = P}
Plan ==
  /\ load.ph = "idle" /\ load.left > 0 /\ Chosen # {}
  /\ On("own rows") => 90 \notin AllLive(Chosen)
  /\ ~Whole /\ On("none outside") => \A f \in tab.files : f.part # LATE
  /\ LET to == IF On("to its position") THEN tab.offs ELSE N
         its == IF On("records of rows") THEN AllLive(Chosen) \ {90}
                ELSE {x \in 1 .. tab.offs : Present(x) = P}
     IN  load' = [load EXCEPT !.ph = "planned", !.base = tab.ver, !.gone = Chosen, !.only = its,
                              !.rest = IF Whole THEN 1 .. to ELSE {}]
  /\ UNCHANGED <<tab, log, net, ghost, broken>>
(* Each record of a row is seen again, or nothing is changed; of a whole table the others come as *)
(* far as Kafka has them: what deleted rows came from, or an earlier rule left out.               *)
Read ==
  /\ load.ph = "planned" /\ (On("each seen") => load.only \subseteq log)
  /\ load' = [load EXCEPT !.ph = "read", !.out = (load.only \union load.rest) \intersect log]
  /\ UNCHANGED <<tab, log, net, ghost, broken>>
(* The request names what was examined.  A stale plan may not be put on another state.            *)
Base == IF On("planned again") THEN load.base ELSE tab.ver
Gone == IF On("planned again") THEN load.gone ELSE Chosen
Ask ==
  /\ load.ph = "read"
  /\ net' = net \union {[base |-> Base, gone |-> Gone, out |-> load.out]}
  /\ load' = [load EXCEPT !.ph = "asked"]
  /\ UNCHANGED <<tab, log, ghost, broken>>
(* The answer is heard, or the person dies; what was asked may still arrive.                      *)
Ends == load.ph # "idle" /\ load' = Idle(load.left - 1)
        /\ UNCHANGED <<tab, log, net, ghost, broken>>
AskAgain ==   \* no answer came
  /\ load.ph = "asked" /\ load' = [load EXCEPT !.ph = "read"]
  /\ UNCHANGED <<tab, log, net, ghost, broken>>
Breaks(name, bad) == IF bad THEN {name} ELSE {}
Lands(r) ==
  LET after == (tab.files \ r.gone) \union Written(ghost.next, r.out) IN
  /\ tab' = [tab EXCEPT !.ver = @ + 1, !.files = after]
  /\ ghost' = [ghost EXCEPT !.next = @ + 1,
                            !.truth = IF Whole THEN @ \union r.out ELSE @]
  /\ broken' = broken \union Breaks("L2", \E f \in after :
                               \E x \in Live(f) \ (f.now \union {90}) : Whole \/ Former(x) = P)
Arrives ==
  \E r \in net :
    /\ r.base = tab.ver \/ ~On("examined base")
    /\ {f.id : f \in r.gone} \subseteq {f.id : f \in tab.files} \/ ~On("files live")
    /\ Lands([r EXCEPT !.gone = {f \in tab.files : f.id \in {g.id : g \in r.gone}}])
    /\ UNCHANGED <<log, load, net>>
(* Others.  A run of another owner lands the next record, in its partition or late; others append,*)
(* delete rows, and compact a partition; retention takes a record.                                *)
RunLands(part) ==
  /\ tab.offs + 1 \in log
  /\ LET x == tab.offs + 1 IN
       /\ tab' = [ver |-> tab.ver + 1, offs |-> x,
                  files |-> tab.files \union {File(10 * ghost.next, part, {x}, {})}]
       /\ ghost' = [Struck EXCEPT !.truth = @ \union {x}]
  /\ UNCHANGED <<log, load, net, broken>>
Appends ==
  /\ Strike("append") /\ 90 \notin AllLive(tab.files)
  /\ tab' = [tab EXCEPT !.ver = @ + 1, !.files = @ \union {File(10 * ghost.next, P, {90}, {})}]
  /\ ghost' = [Struck EXCEPT !.truth = @ \union {90}] /\ UNCHANGED <<log, load, net, broken>>
Deletes ==
  /\ Strike("delete")
  /\ \E f \in tab.files : \E x \in Live(f) :
       /\ tab' = [tab EXCEPT !.ver = @ + 1,
                             !.files = (@ \ {f}) \union {[f EXCEPT !.dead = @ \union {x}]}]
       /\ ghost' = [Struck EXCEPT !.truth = @ \ {x}]
  /\ UNCHANGED <<log, load, net, broken>>
Compacts ==
  /\ Strike("compact")
  /\ \E p \in {f.part : f \in tab.files} :
       LET its == {f \in tab.files : f.part = p}
           one == File(10 * ghost.next, p, AllLive(its), UNION {f.now : f \in its})
       IN  tab' = [tab EXCEPT !.ver = @ + 1, !.files = (@ \ its) \union {one}]
  /\ ghost' = Struck /\ UNCHANGED <<log, load, net, broken>>
Retention ==
  /\ Strike("retention") /\ log # {}
  /\ log' = log \ {CHOOSE x \in log : \A y \in log : x <= y}
  /\ ghost' = Struck /\ UNCHANGED <<tab, load, net, broken>>
Next == \/ Plan \/ Read \/ Ask \/ AskAgain \/ Ends \/ Arrives
        \/ Strike("land") /\ RunLands(Former(tab.offs + 1))
        \/ Strike("late") /\ RunLands(LATE)
        \/ Appends \/ Deletes \/ Compacts \/ Retention
Spec == Init /\ [][Next]_vars
(* What must never be. L1: a row is lost, comes twice, or comes back.  L2: a row of the partition *)
(* is by the former rules where a load has just landed.                                           *)
L1_Rows == /\ AllLive(tab.files) = ghost.truth
           /\ \A x \in ghost.truth : Times(tab.files, x) = 1
L2_Present == "L2" \notin broken
=============================================================================
