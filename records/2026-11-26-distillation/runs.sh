#!/usr/bin/env bash
# One seed of both tasks: teacher, plain student of as many steps, distilled students. bash runs.sh SEED MINILM DATA SHARED_DATA OUT
set -euo pipefail
seed=$1 base=$2 data=$3 shared=$4 out=$5
four="--student-layers 0,2,4,5"
common="--learning-rate 1e-4 --set seed=$seed"

sst2="sst2 -d $data/sst2-train.tsv --dev $data/sst2-choose.tsv $common"
texts="--unlabeled $data/sst2-unlabeled.txt --epochs 3"
cloze finetune $sst2 -m "$base" --epochs 3 -o "$out/sst2-teacher-$seed"
cloze finetune $sst2 --teacher "$out/sst2-teacher-$seed" $four $texts -o "$out/sst2-distilled-$seed"
cloze finetune $sst2 --teacher "$out/sst2-teacher-$seed" -m cloze-mini $texts -o "$out/sst2-mini-$seed"
cloze finetune $sst2 -m "$base" $four --epochs 6 -o "$out/sst2-plain-$seed"

conll="conll2003 -d $data/conll-train.conll --dev $shared/ner/conll2003/eng.testa --set conll2003.context=sentence $common"
texts="--unlabeled $data/conll-unlabeled.txt --epochs 3"
cloze finetune $conll -m "$base" --epochs 3 -o "$out/conll-teacher-$seed"
cloze finetune $conll --teacher "$out/conll-teacher-$seed" $four $texts -o "$out/conll-distilled-$seed"
cloze finetune $conll -m "$base" $four --epochs 6 -o "$out/conll-plain-$seed"
