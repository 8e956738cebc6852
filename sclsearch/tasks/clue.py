"""Four tasks of CLUE (Xu et al., 2020, https://arxiv.org/abs/2004.05986) and their JSON files.

CLUE measures each task by accuracy. The `test.json` files have no labels, so they are not read.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.corpus import SENTENCES, Corpus, Hub
from sclsearch.tasks.tables import load_json_lines

# Class names by the number in the files and on the hub; the names are those of `label_des`.
TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "100": "news_story",
        "101": "news_culture",
        "102": "news_entertainment",
        "103": "news_sports",
        "104": "news_finance",
        "106": "news_house",
        "107": "news_car",
        "108": "news_edu",
        "109": "news_tech",
        "110": "news_military",
        "112": "news_travel",
        "113": "news_world",
        "114": "news_stock",
        "115": "news_agriculture",
        "116": "news_game",
    }
)
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


def _clue(
    task: Task,
    *,
    train: str = "train.json",
    written: tuple[str, ...] = (),
    undecided: str | None = None,
    blank_texts: bool = True,
) -> Corpus:
    texts = SENTENCES if task.pair else ("sentence",)
    return Corpus(
        task=task,
        origin=f"https://storage.googleapis.com/cluebenchmark/tasks/{task.name}_public.zip",
        folder=f"{task.name}_public",
        files=MappingProxyType({"train": train, "validation": "dev.json"}),
        read=load_json_lines,
        columns=(*texts, "label"),
        hub=Hub(
            repository="clue/clue",
            revision="9bc980255c2fe8d2a9dda48c2001ace3101ad8f2",
            config=task.name,
            columns=texts,
            names=written,
        ),
        written=written,
        undecided=undecided,
        blank_texts=blank_texts,
    )


CLUE: Mapping[str, Corpus] = MappingProxyType(
    {
        corpus.task.name: corpus
        for corpus in (
            _clue(
                Task(
                    "tnews",
                    "what is a Chinese headline about, 15 topics",
                    tuple(TOPICS.values()),
                    "accuracy",
                ),
                written=tuple(TOPICS),
            ),
            _clue(
                Task(
                    "ocnli",
                    "does a Chinese premise entail a hypothesis, contradict it, or neither",
                    ("neutral", "entailment", "contradiction"),
                    "accuracy",
                    pair=True,
                ),
                train="train.50k.json",
                undecided="-",
                blank_texts=False,
            ),
            _clue(
                Task(
                    "afqmc",
                    "do two Chinese questions to a bank ask the same",
                    ("different", "same"),
                    "accuracy",
                    pair=True,
                ),
                written=("0", "1"),
            ),
            _clue(
                Task(
                    "iflytek",
                    "what is an app for by its Chinese description, 119 kinds",
                    APPS,
                    "accuracy",
                ),
                written=tuple(str(n) for n in range(len(APPS))),
            ),
        )
    }
)
