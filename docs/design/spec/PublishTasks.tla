---------------------------- MODULE PublishTasks ----------------------------
(* A publication of several tasks, whose producers initialise themselves (KIP-618): who may write *)
(* when the number of tasks changes.  Each task has a transactional id, the lanes of a source are *)
(* dealt to tasks by their number, and id 0 is the lock.  What one transaction is (Publish.tla) is*)
(* taken for granted: it ends as a whole if nobody took its id since, else not at all.            *)
(* Runs, and tasks of theirs, may die or sleep at any moment: then they take no step.             *)
EXTENDS Integers, FiniteSets
CONSTANTS
  One, Two, Three,   \* how many tasks the runs 1, 2 and 3 have; 0: there is no such run
  MaxTerm, Off
VARIABLES
  cur,     \* id -> its term: who has it may end a transaction
  claim,   \* [run, count]: what the newest transaction of id 0 said
  pos,     \* lane -> its position in the ledger
  run,     \* [ph, term, max, left, see]
  job,     \* transactions of tasks: [r, t, term, from]; from is 9 until the task has looked
  truth,   \* lane -> how many rows of it were published
  begun,   \* the newest run whose begin has ended
  broken
vars == <<cur, claim, pos, run, job, truth, begun, broken>>
On(d) == d \notin Off     Max2(x, y) == IF x < y THEN y ELSE x
Counts == <<One, Two, Three>>     Runs == {r \in 1 .. 3 : Counts[r] > 0}
Ids == 0 .. 2     Lanes == 0 .. 2     Zero == [s \in Lanes |-> 0]     Unread == [s \in Lanes |-> 9]
Share(r, t) == {s \in Lanes : s % Counts[r] = t}
NoRun == [ph |-> "top", term |-> 0, max |-> 0, left |-> {}, see |-> Unread]
Init ==
  /\ cur = [i \in Ids |-> 0] /\ claim = [run |-> 0, count |-> 1] /\ pos = Zero /\ truth = Zero
  /\ run = [r \in Runs |-> NoRun] /\ job = {} /\ begun = 0 /\ broken = {}
Is(r, ph) == run[r].ph = ph
Top(r) == run' = [run EXCEPT ![r] = IF claim.run > r THEN [NoRun EXCEPT !.ph = "out"] ELSE NoRun]
Taken(i) == cur[i] < MaxTerm /\ cur' = [cur EXCEPT ![i] = @ + 1]
            /\ job' = {j \in job : j.t # i}   \* what they could not end any more is forgotten
Ledger == <<claim, pos, truth, begun, broken>>
(* A start: take id 0, look, announce, take the others and id 0 again, look, begin: a producer    *)
(* ends one transaction.                                                                          *)
Take(r) ==
  /\ Is(r, "top") /\ Taken(0) /\ UNCHANGED Ledger
  /\ IF claim.run > r THEN run' = [run EXCEPT ![r] = [NoRun EXCEPT !.ph = "out"]]
     ELSE LET max == Max2(IF On("only present ids fenced") THEN claim.count ELSE 1, Counts[r])
              left == IF max = 1 THEN {} ELSE 0 .. max - 1
              ph == IF left = {} THEN "look" ELSE IF On("fence before announce") THEN "announce"
                    ELSE "others"
          IN  run' = [run EXCEPT ![r] = [ph |-> ph, term |-> cur[0] + 1, max |-> max,
                        left |-> left,
                        see |-> IF On("look before the others") THEN Unread ELSE pos]]
Announce(r) ==
  /\ Is(r, "announce") /\ UNCHANGED <<cur, job, pos, truth, begun, broken>>
  /\ IF cur[0] # run[r].term THEN Top(r) /\ UNCHANGED claim
     ELSE /\ claim' = [run |-> r, count |-> Max2(run[r].max, claim.count)]
          /\ run' = [run EXCEPT ![r].ph = IF run[r].left = {} THEN "look" ELSE "others"]
Others(r) ==
  /\ Is(r, "others") /\ UNCHANGED Ledger
  /\ \E i \in run[r].left :
       /\ Taken(i)
       /\ run' = [run EXCEPT ![r].left = @ \ {i}, ![r].term = IF i = 0 THEN cur[0] + 1 ELSE @,
                    ![r].ph = IF run[r].left # {i} THEN "others"
                    ELSE IF On("fence before announce") THEN "look" ELSE "announce"]
Look(r) ==
  /\ Is(r, "look") /\ UNCHANGED <<cur, job, Ledger>>
  /\ IF run[r].max > 1 /\ claim.run # r /\ On("claim not read again") THEN Top(r) ELSE
     run' = [run EXCEPT ![r].ph = "begin",
                        ![r].see = IF On("look before the others") \/ @ = Unread THEN pos ELSE @]
Begin(r) ==   \* it may write the positions of all, as where their number changes
  /\ Is(r, "begin") /\ UNCHANGED <<cur, job, truth, broken>>
  /\ IF cur[0] # run[r].term THEN Top(r) /\ UNCHANGED <<claim, pos, begun>>
     ELSE /\ claim' = [run |-> r, count |-> Counts[r]] /\ begun' = r
          /\ pos' = run[r].see
          /\ run' = [run EXCEPT ![r] = [NoRun EXCEPT !.ph = "live"]]
(* A task: initialise, then look whose the claim is and where its lanes stand, send, end.         *)
Started(r) == Is(r, "live") \/ (Is(r, "begin") /\ ~On("tasks before begin"))
Initialise(r, t) ==
  /\ Started(r) /\ t < Counts[r] /\ cur[t] < MaxTerm /\ UNCHANGED <<Ledger, run>>
  /\ cur' = [cur EXCEPT ![t] = @ + 1]
  /\ job' = {j \in job : j.t # t} \union {[r |-> r, t |-> t, term |-> cur[t] + 1, from |-> Unread]}
Looked(j) ==
  /\ j.from = Unread /\ UNCHANGED <<cur, run, Ledger>>
  /\ job' = (job \ {j}) \union IF claim.run # j.r /\ On("claim not read after init") THEN {}
                               ELSE {[j EXCEPT !.from = pos]}
Ended(j) ==   \* nobody took its id since, or it would not be there
  /\ j.from # Unread /\ job' = job \ {j} /\ UNCHANGED <<cur, claim, run, begun>>
  /\ LET S == {s \in Share(j.r, j.t) : j.from[s] = 0}
     IN  /\ pos' = [s \in Lanes |-> IF s \in S THEN 1 ELSE pos[s]]
         /\ truth' = [s \in Lanes |-> IF s \in S THEN truth[s] + 1 ELSE truth[s]]
         /\ broken' = broken \union (IF \E s \in S : truth[s] > 0 THEN {"Q1"} ELSE {})
              \union (IF \E s \in Lanes : pos'[s] > truth'[s] THEN {"Q2"} ELSE {})
              \union (IF j.r < begun /\ S # {} THEN {"Q4"} ELSE {})
Next == \/ \E r \in Runs : Take(r) \/ Announce(r) \/ Others(r) \/ Look(r) \/ Begin(r)
        \/ \E r \in Runs, t \in Ids : Initialise(r, t)
        \/ \E j \in job : Looked(j) \/ Ended(j)
Spec == Init /\ [][Next]_vars
Held(q) == q \notin broken
Q1_NoDup == Held("Q1")     Q2_NoLoss == Held("Q2")     Q4_Fenced == Held("Q4")
=============================================================================
