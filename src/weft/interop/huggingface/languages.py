"""Languages of pretrained models whose tokenizer files do not list them, in the order of their ids."""

from __future__ import annotations


def _codes(text: str) -> tuple[str, ...]:
    return tuple(text.split())


MBART_25 = _codes(
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
MBART_50 = MBART_25 + _codes(
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN "
    "te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
M2M_100 = _codes(
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
WMT_21 = _codes("en ha is ja cs ru zh de")
ENGLISH = ("eng_Latn", "en_XX", "en")
"""The source language of these models where none is chosen."""
