# Two drawings of ARCHITECTURE.md, as plain SVG.
from xml.sax.saxutils import escape
STYLE='font-family="Helvetica,Arial,sans-serif" font-size="13"'
B='font-weight="bold"'
P='fill="#333" font-size="12"'
DASH='stroke-dasharray="4 3"'
BOTH='marker-start="url(#a)"'
class S:
    def __init__(s,w,h,title): s.w,s.h=w,h; s.o=[f'<title>{escape(title)}</title>','<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',f'<rect width="{w}" height="{h}" fill="#fff"/>']
    def box(s,x,y,w,h,lines,fill='#eef3fb',stroke='#4a6fa5',bold=True):
        s.o.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="5" fill="{fill}" stroke="{stroke}"/>')
        n=len(lines); y0=y+h/2-(n-1)*8+4.5
        for i,l in enumerate(lines):
            s.o.append(f'<text x="{x+w/2}" y="{y0+i*16}" text-anchor="middle" {B if bold and i==0 else P}>{escape(l)}</text>')
    def area(s,x,y,w,h,label):
        s.o.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8" fill="none" stroke="#999" stroke-dasharray="5 4"/>')
        s.o.append(f'<text x="{x+8}" y="{y+16}" fill="#666" font-size="12">{escape(label)}</text>')
    def arrow(s,pts,label=None,at=None,both=False,dash=False,anchor='middle'):
        d='M'+' L'.join(f'{x},{y}' for x,y in pts)
        s.o.append(f'<path d="{d}" fill="none" stroke="#444" {DASH if dash else ""} marker-end="url(#a)" {BOTH if both else ""}/>')
        if label:
            x,y=at or ((pts[0][0]+pts[-1][0])/2,(pts[0][1]+pts[-1][1])/2-5)
            s.text(x,y,label,anchor)
    def text(s,x,y,t,anchor='middle',size=12,fill='#333',weight=''):
        for i,l in enumerate(t.split('\n')):
            s.o.append(f'<text x="{x}" y="{y+i*14}" text-anchor="{anchor}" font-size="{size}" fill="{fill}" {weight}>{escape(l)}</text>')
    def save(s,p): open(p,'w').write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {s.w} {s.h}" width="{s.w}" height="{s.h}" {STYLE}>\n'+'\n'.join(s.o)+'\n</svg>\n')
import sys
out=sys.argv[1]
# 1 processes
p=S(860,420,'Processes: front end, daemons, starters, ranks')
p.area(10,70,410,340,'node 0'); p.area(440,70,410,340,'')
p.text(840,86,'node 1','end',12,'#666')
p.box(20,12,190,42,['mpiexec, tutti run','front end of a user'],'#fff5e6','#c78a2b')
p.box(50,110,160,56,['tuttid (controller)','main loop'] ); p.box(235,110,160,56,['switch thread','real time'],'#fdecec','#b04a4a')
p.box(490,110,160,56,['tuttid','main loop']); p.box(675,110,160,56,['switch thread','real time'],'#fdecec','#b04a4a')
p.arrow([(115,54),(115,110)],'local socket',(122,86),both=True,anchor='start')
p.arrow([(210,138),(235,138)],both=True); p.arrow([(650,138),(675,138)],both=True)
p.arrow([(130,166),(130,182),(570,182),(570,166)],'control tree: TLS, orders down, states up',(345,196),both=True)
p.arrow([(315,110),(315,92),(755,92),(755,110)],'sealed datagrams: SWITCH, FROZEN',(560,88),both=True)
for x in (0,440):
    p.box(50+x,225,160,46,['tutti-starter','one per job and node'])
    p.arrow([(100+x,166),(100+x,225)],'wire',(94+x,214),both=True,anchor='end')
    for i in (0,1): p.box(50+x+i*105,330,95,56,[f'rank {i+(2 if x else 0)}','libtutti.so'],'#eaf7ea','#4c8a4c')
    p.arrow([(97+x,271),(97+x,330)],'fork, stdio',(103+x,296),anchor='start')
    p.arrow([(185+x,271),(200+x,330)])
    p.arrow([(145+x,358),(155+x,358)],both=True)
    p.text(150+x,402,'rings in shared memory')
    p.arrow([(340+x,166),(340+x,372),(252+x,372)],'freeze, thaw\nby cgroup',(346+x,280),dash=True,anchor='start')
p.arrow([(250,345),(490,345)],'UDP',(372,340),both=True)
p.save(out+'/processes.svg')
# 2 switch
w=S(860,330,'One gang switch in time, overlapped')
lanes=[('controller',60),('node 1',130),('node 2',200)]
w.text(10,20,'Job A leaves, job B comes. Time goes to the right; not to scale.','start',12,'#666')
for n,y in lanes:
    w.text(10,y+14,n,'start',13,'#000','font-weight="bold"')
    w.o.append(f'<line x1="100" y1="{y+10}" x2="850" y2="{y+10}" stroke="#ccc"/>')
def seg(x0,x1,y,t,fill): w.o.append(f'<rect x="{x0}" y="{y-4}" width="{x1-x0}" height="26" rx="3" fill="{fill}" stroke="#777"/>'); w.text((x0+x1)/2,y+13,t)
for i,(n,y) in enumerate(lanes):
    d=i*70
    seg(100,230+d,y,'A runs','#cfe0f7'); seg(230+d,300+d,y,'freeze A','#f7d6d6'); seg(300+d,850,y,'B runs','#d5efd5')
w.arrow([(228,82),(296,128)],'SWITCH',(200,112),anchor='start'); w.arrow([(298,152),(366,198)],'SWITCH',(268,184),anchor='start')
w.arrow([(470,198),(520,152)],'FROZEN(A)',(504,184),anchor='start'); w.arrow([(540,128),(590,82)],'FROZEN(A), merged',(574,112),anchor='start')
w.text(10,262,'1  The controller sends SWITCH(row, generation) to its children before it freezes anything itself.\n2  A node writes 1 to the freezer of A. No rank of A runs an instruction of its own after that, so B is thawed at once.\n3  FROZEN(A) goes up behind it, merged at each node: the controller waits for it only before A runs again.\n4  Strict switches (--strict) wait at each step on all nodes: FREEZE, FROZEN, SAVE, SAVED, RESTORE, RESTORED, RUN.','start',12)
w.save(out+'/switch.svg')
