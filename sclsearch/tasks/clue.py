"""Tasks of CLUE and FewCLUE, Chinese benchmarks, and their JSON files.

CLUE (Xu et al., 2020, https://arxiv.org/abs/2004.05986) measures each task by accuracy. The
`test.json` files have no labels, so they are not read.

FewCLUE (Xu et al., 2021, https://arxiv.org/abs/2107.07498) has five training sets of 32 rows,
`train_0` to `train_4`, each with a validation set of the same size. For Tnews a set has 240 rows,
16 per class. `train_few_all` and `dev_few_all` are the unions. We read the unions, because a
protocol draws its own subset for each replicate and one set has fewer than 20 rows per class. The
two unions share no text. Two of the five sets may share a text. A union keeps it once, since a
protocol may draw validation rows from the training split. The test is `test_public`; `test` and
`unlabeled` have no labels, so they are not read.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.corpus import SENTENCES, Corpus, Hub, by_name
from sclsearch.tasks.tables import load_json_lines

_TOPICS = """
    100 news_story  101 news_culture  102 news_entertainment  103 news_sports  104 news_finance
    106 news_house  107 news_car  108 news_edu  109 news_tech  110 news_military  112 news_travel
    113 news_world  114 news_stock  115 news_agriculture  116 news_game
"""
# Class names by the number in the files and on the hub; the names are those of `label_des`.
TOPICS: Mapping[str, str] = MappingProxyType(dict(re.findall(r"(\d+) (\w+)", _TOPICS)))
_APPS = """
    打车 地图导航 免费WIFI 租车 同城服务 快递物流 婚庆 家政 公共交通 政务 社区服务 薅羊毛
    魔幻 仙侠 卡牌 飞行空战 射击游戏 休闲益智 动作类 体育竞技 棋牌中心 经营养成 策略 MOBA
    辅助工具 约会社交 即时通讯 工作社交 论坛圈子 婚恋社交 情侣社交 社交工具 生活社交
    微博博客 新闻 漫画 小说 技术 教辅 问答交流 搞笑 杂志 百科 影视娱乐 求职 兼职 视频 短视频
    音乐 直播 电台 K歌 成人 中小学 职考 公务员 英语 视频教育 高等教育 成人教育 艺术
    语言(非英语) 旅游资讯 综合预定 民航 铁路 酒店 行程管理 民宿短租 出国 工具 亲子儿童 母婴
    驾校 违章 汽车咨询 汽车交易 日常养车 行车辅助 租房 买房 装修家居 电子产品 问诊挂号
    养生保健 医疗服务 减肥瘦身 美妆美业 菜谱 餐饮店 体育咨讯 运动健身 支付 保险 股票 借贷
    理财 彩票 记账 银行 美颜 影像剪辑 摄影修图 相机 绘画 二手 电商 团购 外卖 电影票务
    社区超市 购物咨询 笔记 办公 日程管理 女性 经营 收款 其他
"""
APPS = tuple(_APPS.split())
FEWCLUE_SPLITS: Mapping[str, str] = MappingProxyType(
    {"train": "train_few_all.json", "validation": "dev_few_all.json", "test": "test_public.json"}
)


def _clue(
    name: str,
    summary: str,
    labels: tuple[str, ...],
    texts: tuple[str, ...] = ("sentence",),
    *,
    train: str = "train.json",
    written: tuple[str, ...] = (),
    undecided: str | None = None,
    blank_texts: bool = True,
) -> Corpus:
    return Corpus(
        task=Task(name, summary, labels, "accuracy", pair=len(texts) == 2),
        origin=f"https://storage.googleapis.com/cluebenchmark/tasks/{name}_public.zip",
        folder=f"{name}_public",
        files=MappingProxyType({"train": train, "validation": "dev.json"}),
        read=load_json_lines,
        columns=(*texts, "label"),
        hub=Hub(
            repository="clue/clue",
            revision="9bc980255c2fe8d2a9dda48c2001ace3101ad8f2",
            config=name,
            columns=texts,
            names=written,
        ),
        written=written,
        undecided=undecided,
        blank_texts=blank_texts,
    )


def _fewclue(
    name: str,
    summary: str,
    labels: tuple[str, ...],
    texts: tuple[str, ...] = ("sentence",),
    *,
    written: tuple[str, ...],
) -> Corpus:
    return Corpus(
        task=Task(name, summary, labels, "accuracy", pair=len(texts) == 2),
        origin="https://github.com/CLUEbenchmark/FewCLUE/tree/main/datasets",
        folder=name.removeprefix("fewclue-"),
        files=FEWCLUE_SPLITS,
        read=load_json_lines,
        columns=(*texts, "label"),
        written=written,
        distinct=True,
    )


CLUE = by_name(
    _clue(
        "tnews",
        "what is a Chinese headline about, 15 topics",
        tuple(TOPICS.values()),
        written=tuple(TOPICS),
    ),
    _clue(
        "ocnli",
        "does a Chinese premise entail a hypothesis, contradict it, or neither",
        ("neutral", "entailment", "contradiction"),
        SENTENCES,
        train="train.50k.json",
        undecided="-",
        blank_texts=False,
    ),
    _clue(
        "afqmc",
        "do two Chinese questions to a bank ask the same",
        ("different", "same"),
        SENTENCES,
        written=("0", "1"),
    ),
    _clue(
        "iflytek",
        "what is an app for by its Chinese description, 119 kinds",
        APPS,
        written=tuple(str(n) for n in range(len(APPS))),
    ),
    _fewclue(
        "eprstmt",
        "is a Chinese product review positive, few rows",
        ("negative", "positive"),
        written=("Negative", "Positive"),
    ),
    _fewclue(
        "bustm",
        "do two Chinese requests to a voice assistant mean the same, few rows",
        ("different", "same"),
        SENTENCES,
        written=("0", "1"),
    ),
    _fewclue(
        "fewclue-tnews",
        "what is a Chinese headline about, 15 topics, few rows",
        tuple(TOPICS.values()),
        written=tuple(TOPICS),
    ),
)
