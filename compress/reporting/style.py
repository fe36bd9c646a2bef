"""The style sheet of ``report.html``: one hue that deepens from the teacher's grey to INT8."""

from __future__ import annotations

LIGHT = """
  --page:#f6f7f9; --card:#ffffff; --ink:#12151c; --soft:#5a6272; --faint:#e4e7ec; --hair:#eef0f4;
  --teacher:#a3abb9; --fp32:#8ba3f3; --int8:#2b48d4; --on-int8:#ffffff; --wash:#eceffd;
  --int4:#0f8a7e;
  --good:#0b7a4b; --good-wash:#e3f5ec; --bad:#b3261e; --bad-wash:#fdebe9;
  --warn:#7a4d00; --warn-wash:#fff4dc;
"""

DARK = """
  --page:#0d0f14; --card:#161920; --ink:#eef0f5; --soft:#98a1b3; --faint:#2a2f3a; --hair:#20242d;
  --teacher:#667085; --fp32:#4f68c4; --int8:#9fb2ff; --on-int8:#0d1230; --wash:#1c2340;
  --int4:#5fd3c6;
  --good:#5fd39b; --good-wash:#10291e; --bad:#ff8f85; --bad-wash:#331614;
  --warn:#f0c26a; --warn-wash:#2b220f;
"""

_BASE = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);line-height:1.5;font-size:15px;
  font-family:Inter,ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",
  Arial,sans-serif;font-feature-settings:"tnum","cv05";-webkit-font-smoothing:antialiased}
main,header,footer{max-width:1080px;margin:0 auto;padding:0 24px}
h1,h2,h3,p,dl,dd,figure,ol,ul{margin:0;padding:0}
h1{font-size:34px;line-height:1.15;letter-spacing:-.022em;font-weight:680;overflow-wrap:anywhere}
h2{font-size:20px;letter-spacing:-.012em;font-weight:650}
h3{font-size:14px;font-weight:620}
small,.soft{color:var(--soft)}
small{font-size:13px}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
  font-size:13px}
section{margin-top:48px}
section>.lead{color:var(--soft);margin-top:4px;max-width:68ch}
section>.lead+*{margin-top:18px}
.card{background:var(--card);border:1px solid var(--faint);border-radius:14px;padding:20px}
.grid{display:grid;gap:16px;grid-template-columns:repeat(auto-fit,minmax(min(100%,290px),1fr))}
.grid.four{grid-template-columns:repeat(auto-fit,minmax(min(100%,226px),1fr))}
.grid.two{grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr))}
"""

_HEAD = """
.bar-top{display:flex;justify-content:space-between;align-items:center;padding:22px 0 36px;
  color:var(--soft);font-size:13px;gap:16px}
.brand{display:flex;gap:10px;align-items:center;color:var(--ink);font-weight:650;font-size:15px}
.brand svg{width:22px;height:22px}
.hero{display:grid;grid-template-columns:minmax(0,1fr) 196px;gap:48px;align-items:center}
.hero p{font-size:18px;line-height:1.5;margin-top:14px;max-width:56ch;color:var(--soft)}
.hero p b{color:var(--ink);font-weight:620}
.badge{display:inline-flex;align-items:center;gap:7px;padding:4px 12px 4px 9px;border-radius:99px;
  font-size:13px;font-weight:600;margin-bottom:16px}
.badge svg{width:15px;height:15px}
.good{color:var(--good)}.bad{color:var(--bad)}
.badge.good{background:var(--good-wash)}.badge.bad{background:var(--bad-wash)}
.squares{width:100%;height:auto;display:block;overflow:visible}
.square{stroke:var(--card);stroke-width:2}
.square.teacher{fill:var(--hair);stroke:var(--teacher);stroke-width:1.5}
.square.fp32{fill:var(--fp32)}.square.int8{fill:var(--int8)}.square.int4{fill:var(--int4)}
.squares text{font-size:13px;font-weight:620;fill:var(--ink)}
.squares .on.int8,.squares .on.int4{fill:var(--on-int8)}
.keys{display:flex;flex-wrap:wrap;gap:4px 14px;margin-top:12px;font-size:12.5px;color:var(--soft)}
.keys i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}
i.teacher{background:var(--teacher)}i.fp32{background:var(--fp32)}i.int8{background:var(--int8)}
i.int4{background:var(--int4)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,220px),1fr));
  margin-top:36px;background:var(--card);border:1px solid var(--faint);border-radius:16px;
  overflow:hidden}
.tile{padding:22px 24px;border-left:1px solid var(--faint);margin-left:-1px}
.tile small{display:block;line-height:1.4}
.tile .what{font-size:13px;color:var(--soft)}
.tile .big{font-size:40px;line-height:1.15;font-weight:680;letter-spacing:-.03em;margin:2px 0}
.tile .big span{font-size:22px;letter-spacing:0;font-weight:600;color:var(--soft);margin-left:2px}
.note{background:var(--warn-wash);color:var(--warn);border-radius:12px;padding:13px 16px;
  margin-top:16px;font-size:14px;display:flex;gap:10px}
.note svg{width:18px;height:18px;flex:none;margin-top:2px}
"""

_MARKS = """
.card>h3+small{display:block;margin-bottom:16px}
.four .card>small{min-height:40px}
.mark{display:grid;grid-template-columns:1fr auto;gap:2px 12px;font-size:13.5px}
.mark+.mark{margin-top:13px}
.mark .name{color:var(--soft);overflow-wrap:anywhere}.mark .value{font-weight:620}
.track{grid-column:1/-1;position:relative;height:12px;border-radius:4px;background:var(--hair)}
.track .bar{position:absolute;top:0;bottom:0;border-radius:4px}
.track.open{background:linear-gradient(var(--faint),var(--faint)) center/100% 1px no-repeat;
  height:20px}
.dot{position:absolute;width:12px;height:12px;top:4px;margin-left:-6px;border-radius:50%;
  box-shadow:0 0 0 2px var(--card)}
.whisker{position:absolute;top:8px;height:4px;border-radius:2px;opacity:.5}
.reference{position:absolute;top:-9px;bottom:-9px;width:0;border-left:1.5px dashed var(--teacher)}
.axis{position:relative;height:18px;margin-top:6px;font-size:12px;color:var(--soft)}
.axis span{position:absolute;transform:translateX(-50%)}
.panels{display:grid;gap:16px;grid-template-columns:repeat(auto-fill,minmax(min(100%,280px),1fr))}
.phase+.phase{margin-top:28px}
.phase>h3{margin-bottom:2px}.phase>.panels{margin-top:12px}
.panel{background:var(--card);border:1px solid var(--faint);border-radius:14px;
  padding:14px 14px 8px}
.panel figcaption{display:flex;gap:8px;align-items:baseline;font-size:13.5px}
.panel figcaption span{flex:1;color:var(--soft)}
.panel figcaption b{font-weight:620}
.panel svg{display:block;width:100%;height:auto;margin-top:6px}
.panel text{font-size:11px;fill:var(--soft)}
line.grid{stroke:var(--hair);stroke-width:1}
.line{fill:none;stroke:var(--int8);stroke-width:1.8;stroke-linejoin:round}
.line.score{stroke:var(--fp32)}
.point{fill:var(--fp32)}
.point.best{fill:var(--int8);stroke:var(--card);stroke-width:2}
.recall{display:grid;gap:0 40px;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))}
.class{display:grid;grid-template-columns:minmax(84px,1.1fr) 2.4fr 72px;gap:16px;
  align-items:center;padding:9px 0;border-bottom:1px solid var(--hair);font-size:13.5px}
.class .label{overflow-wrap:anywhere;line-height:1.25}
.class .label small{display:block;font-size:12px}
.pair .track{height:7px;margin:3px 0}
.class .now{text-align:right;font-weight:620;line-height:1.3}
.class .now small{display:block;font-weight:400;font-size:12px}
.vanished .now{color:var(--bad)}
"""

_TABLES = """
.wide{padding:4px 20px;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{padding:12px 7px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--hair)}
tr:last-child td,tr:last-child th{border-bottom:0}
thead th{white-space:normal;font-weight:500;color:var(--soft);font-size:12.5px;
  vertical-align:bottom}
th:first-child,td:first-child{text-align:left;padding-left:0}
th:last-child,td:last-child{padding-right:0}
tbody th{font-weight:620}
tbody th small,td small{display:block;font-weight:400;font-size:12px}
tbody th .bad{font-weight:600}
td .same{color:var(--soft)}
tbody th i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:8px}
.gates{grid-template-columns:repeat(auto-fill,minmax(min(100%,290px),1fr))}
.gates .card{display:flex;flex-direction:column;gap:10px}
.gates .top{display:flex;justify-content:space-between;align-items:center;font-size:14px;gap:12px}
.gates .top b{font-weight:620}
.gates .top .badge{margin:0}
.limit{display:grid;grid-template-columns:1fr auto;font-size:13.5px;gap:2px 12px;padding-top:8px;
  border-top:1px solid var(--hair)}
.limit span:first-child{color:var(--soft)}.limit b{font-weight:620}
.limit b,.limit small:last-child{text-align:right}
.reason{color:var(--bad);font-size:13.5px}
.split{display:flex;height:16px;border-radius:5px;overflow:hidden;gap:2px}
.split i{background:var(--int8);min-width:2px}
.times{display:grid;gap:6px 28px;margin-top:16px;font-size:13.5px;
  grid-template-columns:repeat(auto-fit,minmax(min(100%,190px),1fr))}
.times div{display:flex;justify-content:space-between;gap:10px}
.times i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:8px;
  background:var(--int8)}
dl.facts{display:grid;grid-template-columns:minmax(84px,auto) 1fr;gap:7px 18px;font-size:13.5px;
  margin-top:12px}
dl.facts dt{color:var(--soft)}dl.facts dd{overflow-wrap:anywhere}
.steps{list-style:none;counter-reset:step;margin-top:12px;font-size:13.5px}
.steps details{padding:9px 0;border-bottom:1px solid var(--hair)}
.steps li:last-child details{border:0}
.steps summary{cursor:pointer;font-weight:600}.steps summary small{font-weight:400;margin-left:8px}
pre{background:var(--hair);border-radius:10px;padding:13px 16px;margin:10px 0 0;overflow-x:auto;
  white-space:pre-wrap;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:13px;padding-top:40px;padding-bottom:56px}
"""

_SMALL = """
@media (min-width:721px) and (max-width:1020px){
  .tiles,.grid.four{grid-template-columns:1fr 1fr}
  .tile:nth-child(n+3){border-top:1px solid var(--faint)}
}
@media (max-width:720px){
  main,header,footer{padding-left:16px;padding-right:16px}
  h1{font-size:28px}.bar-top{padding:16px 0 24px}
  .hero{grid-template-columns:1fr;gap:24px}.hero p{font-size:16.5px}
  .hero figure{display:flex;gap:20px;align-items:end}.hero .squares{width:150px}
  .keys{flex-direction:column;margin:0}
  .tiles{grid-template-columns:1fr 1fr;margin-top:28px}
  .tile{padding:16px;border-top:1px solid var(--faint);margin-top:-1px}
  .tile .big{font-size:32px}.tile .big span{font-size:18px}
  section{margin-top:36px}.four .card>small{min-height:0}
  .wide{padding:4px 16px}
  thead{display:none}
  table,tbody,tr,td,tbody th{display:block;width:100%}
  tbody tr{padding:12px 0;border-bottom:1px solid var(--faint)}
  tbody tr:last-child{border:0}
  td,tbody th{display:flex;justify-content:space-between;gap:16px;padding:4px 0;border:0;
    white-space:normal}
  tbody th{display:block;text-align:left}
  td::before{content:attr(data-label);color:var(--soft)}
  td>span{text-align:right}
  .class{grid-template-columns:minmax(72px,1fr) 1.8fr 70px;gap:12px}
}
@media print{body{background:#fff}.card,.panel,.tiles{break-inside:avoid}}
"""

STYLE = (
    f":root{{{LIGHT}}}\n@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}"
    + _BASE
    + _HEAD
    + _MARKS
    + _TABLES
    + _SMALL
)
