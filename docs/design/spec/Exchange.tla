------------------------------ MODULE Exchange ------------------------------
(* One epoch whose rows meet by partition before they are written (decision 0377): which files of *)
(* which attempts a table gets.  Slices are read by tasks, any number of attempts at each; what   *)
(* counts is dealt to shares, written by tasks likewise.  What the commit does with the files is  *)
(* Penstock.tla's.  That the books must equal the rows of the files (P704) is left out: it is a   *)
(* second line of defence, and would hide what the first one lacks.                               *)
EXTENDS Integers, FiniteSets
CONSTANTS
  Attempts,        \* at each slice and share, in each epoch
  Epochs,          \* how often the range is read: a coordinator dies, or a share is refused
  Faults, MaxFaults, Off
VARIABLES
  ep, ph,          \* the epoch, and what it is at: "read", "share", "landed"
  disk,            \* name of an exchange file -> the rows that are in it
  answers,         \* results of slices: [e, s, a]
  got,             \* slice -> the results that count
  shares,          \* results of shares: [b, a, rows, ok]
  kept,            \* share -> the results that count
  table,           \* row -> how often it is there
  struck
vars == <<ep, ph, disk, answers, got, shares, kept, table, struck>>
On(d) == d \notin Off
Rows == 1 .. 4     Slices == 1 .. 2     Shares == 0 .. 1
(* The second epoch reads the same rows, and its slices are cut elsewhere.                        *)
Of(e, s) == IF s = 1 THEN (IF e % 2 = 1 THEN {1, 2} ELSE {1})
            ELSE (IF e % 2 = 1 THEN {3, 4} ELSE {2, 3, 4})
Part(r) == r % 2
Names == [e : 1 .. Epochs, s : Slices, a : Attempts]
Lost == {0}     \* what is in a file that is not there
Empty == [s \in Slices |-> {}]     None == [b \in Shares |-> {}]
Init ==
  /\ ep = 1 /\ ph = "read" /\ disk = [n \in Names |-> Lost] /\ answers = {} /\ got = Empty
  /\ shares = {} /\ kept = None /\ table = [r \in Rows |-> 0] /\ struck = 0
(* An attempt writes its file and answers, when it likes: also one of an epoch that is over.      *)
Read(e, s, a) ==
  LET n == [e |-> e, s |-> s, a |-> a]
  IN  /\ e <= ep /\ n \notin answers
      /\ disk' = [disk EXCEPT ![n] = Of(e, s)] /\ answers' = answers \union {n}
      /\ UNCHANGED <<ep, ph, got, shares, kept, table, struck>>
Count(s) ==
  /\ ph = "read" /\ (got[s] = {} \/ ~On("one attempt a slice"))
  /\ \E n \in answers \ got[s] :
       /\ n.s = s /\ (n.e = ep \/ ~On("results of this run"))
       /\ got' = [got EXCEPT ![s] = @ \union {n}]
  /\ UNCHANGED <<ep, ph, disk, answers, shares, kept, table, struck>>
Deal ==
  /\ ph = "read" /\ \E s \in Slices : got[s] # {}
  /\ (On("all slices") => \A s \in Slices : got[s] # {})
  /\ ph' = "share" /\ UNCHANGED <<ep, disk, answers, got, shares, kept, table, struck>>
(* A task of a share reads what was dealt, and refuses what is not as it was written.             *)
Dealt == UNION {got[s] : s \in Slices}
Write(b, a) ==
  LET read(n) == {r \in disk[n] \ {0} : Part(r) = b}
      sound == \A n \in Dealt : disk[n] = Of(n.e, n.s)
      there == \A n \in Dealt : disk[n] # Lost
      ok == IF On("checksum") THEN sound ELSE there
      rows == [r \in Rows |-> Cardinality({n \in Dealt : r \in read(n)})]
  IN  /\ ph = "share" /\ ~\E x \in shares : x.b = b /\ x.a = a
      /\ shares' = shares \union {[b |-> b, a |-> a, ok |-> ok,
                                   rows |-> IF ok THEN rows ELSE [r \in Rows |-> 0]]}
      /\ UNCHANGED <<ep, ph, disk, answers, got, kept, table, struck>>
Keep(b) ==
  /\ ph = "share" /\ (kept[b] = {} \/ ~On("one result a share"))
  /\ \E x \in shares \ kept[b] : x.b = b /\ kept' = [kept EXCEPT ![b] = @ \union {x}]
  /\ UNCHANGED <<ep, ph, disk, answers, got, shares, table, struck>>
Sum(r) == LET all == UNION {kept[b] : b \in Shares}
              three == {x \in all : x.rows[r] > 2}   two == {x \in all : x.rows[r] > 1}
          IN  Cardinality({x \in all : x.rows[r] > 0}) + Cardinality(two) + Cardinality(three)
Land ==
  /\ ph = "share" /\ \E b \in Shares : kept[b] # {}
  /\ (On("all shares") => \A b \in Shares : kept[b] # {})
  /\ (On("refused shares") => \A b \in Shares : \A x \in kept[b] : x.ok)
  /\ ph' = "landed" /\ table' = [r \in Rows |-> table[r] + Sum(r)]
  /\ UNCHANGED <<ep, disk, answers, got, shares, kept, struck>>
(* A share was refused, workers died of it, or the coordinator died: the range is read again.     *)
Again ==
  /\ ph # "landed" /\ ep < Epochs /\ ep' = ep + 1 /\ ph' = "read" /\ got' = Empty /\ kept' = None
  /\ shares' = {} /\ UNCHANGED <<disk, answers, table, struck>>
Strike(f) == f \in Faults /\ struck < MaxFaults /\ struck' = struck + 1
Harm == \E n \in Names :
  /\ disk[n] # Lost
  /\ \/ Strike("lost") /\ disk' = [disk EXCEPT ![n] = Lost]
     \/ Strike("cut") /\ disk' = [disk EXCEPT ![n] = {1} \intersect @]
     \/ Strike("foreign") /\ \E m \in Names : disk[m] # Lost /\ disk' = [disk EXCEPT ![n] = disk[m]]
  /\ UNCHANGED <<ep, ph, answers, got, shares, kept, table>>
Next == \/ \E e \in 1 .. Epochs, s \in Slices, a \in Attempts : Read(e, s, a)
        \/ \E s \in Slices : Count(s)
        \/ \E b \in Shares, a \in Attempts : Write(b, a)
        \/ \E b \in Shares : Keep(b)
        \/ Deal \/ Land \/ Again \/ Harm
Spec == Init /\ [][Next]_vars
I1_NoDup == \A r \in Rows : table[r] <= 1
I2_NoLoss == ph = "landed" => \A r \in Rows : table[r] >= 1   \* the ledger says that all is there
=============================================================================
