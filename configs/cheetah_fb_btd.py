"""Cheetah, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/cheetah_fb_btd.py        # or :laptop, :paper, :smoke

Laptop scale takes 14.5 minutes on two CPU cores: 5.2 to collect, 5.3 for the encoder, 3.5 for the
policy. Measured there on the 512 episodes that it collects: returns of 1000 steps, 10 episodes a
task, mean and deviation over training seeds 0, 1, 2 (each with its own encoder):

                 walk        run     walk_backward  run_backward    mean      by seed
    btd       345 +- 94   72 +- 19    147 +- 61      30 +- 12    148 +- 36   114, 186, 145
    uniform    78 +- 130  15 +- 25    137 +- 103     28 +- 21     64 +- 47    12,  75, 105
    random     16          3           98            20           34

What can be read from it: BTD is above uniform and above random on average. It is far above random
on walk and run; on the backward tasks by half on average, and not in seed 2 (91 and 17). The
comparison leans to BTD: the preset was chosen by looking at BTD's scores on these tasks, some eight
settings of one seed each, and uniform was run with what came out, without a search of its own.

It is not steady yet: seed 0 once more, by the command above in a fresh checkout on the same data,
came out at 54, 4, 116, 24 (mean 49). Between the two lie another number of threads and some commits
on the encoder's arithmetic; which of them matters was not separated. In nine of its ten episodes of
walk the policy stands still: speed 0, action constant. So take the mean of several seeds
(`--config.seeds=3`) before you compare anything. The mean over tasks (4 episodes) by updates:

                2500  5000  7500 10000 12500 15000 17500 20000
    btd 0         53   121   147   150   142   119   106   143
    btd 1        120   148   144   193   120   147   193   180
    btd 2         78   118    94    76   126   127   164   176
    uniform 0     38   126    14    76    55    17    15    13
    uniform 1    124    54    88    83    60   106    82    80
    uniform 2     13    43    19    51    90   113    79    79

Seen besides, one seed each, several stopped early, so hints and not results: a behaviour term of
0.2 (walk 160 to 600, backward tasks at random's score, 30,000 updates); of 0.05 (backward
up to 335 and walk up to 680, swinging down to 10 within 2500 updates); a discount of 0.98 (walk at
3 to 12 between 10,000 and 15,000 updates, stopped at 17,500); three times the exploration updates
with a smaller net (8630 instead of 5950 cells covered, R^2 of the backward rewards 0.61 instead of
0.75; its policy was trained with 0.05, so it does not compare).

What steadies it is not found yet. On the same three encoders, BTD, mean over tasks (10 episodes)
after 5, 10, 15, 20 thousand updates; a dash is a run that was stopped:

                                               seed 0              seed 1              seed 2
    as above, trained once more          123 157 133 114     152 178 139   -
    policy.successor=1                    92  41 126  51     149 171 218 224     178 162 187 186
    successor=1, pull by |Q(pi)-Q(a)|
      weight 1                            84  56 187 179     132 127 116  92     124 201 220 252
      weight 2                            80 101   -   -     211 159 148   -
      weight 2, discount 0.98                                179 222 153   -
      weight 2, 10,000 updates in all     69  35             198 156             148 184
      weight 4                                               108   -   -   -
    pull by |Q(pi)-Q(a)|, weight 2       181  41 130   -

"Pull by |Q(pi)-Q(a)|" divides Q by what the policy's action changes instead of by mean |Q|, so that
the pull does not grow with |Q|: freer, higher at its best and less steady; it was taken out again.
The loss on successor features lifts seeds 1 and 2 and not seed 0, whose walk stands still in half
of its episodes: with three seeds no ranking can be read from this, so the preset stays.

These figures are of laptop scale and of data of our own: they do not compare with published ExORL
scores. At paper scale, with an accelerator and ExORL data, the paper reports 579 +- 25 for this
cell; that has not been run here.
"""

from ml_collections import ConfigDict

from configs.cell import get_cell


def get_config(scale: str = "auto") -> ConfigDict:
    """Return the run at a scale: auto, laptop, paper or smoke."""
    return get_cell("cheetah", "fb", "btd", scale or "auto")
