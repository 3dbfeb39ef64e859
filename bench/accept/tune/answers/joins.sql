-- In memory: two tables of generated rows, an index, a join, a group and a sort.
pragma temp_store = memory;
create table orders (id integer primary key, customer integer, amount integer, note text);
create table customers (id integer primary key, name text, region integer);
with recursive n(i) as (select 0 union all select i + 1 from n where i < 29999)
insert into customers select i, printf('customer-%06d', (i * 7919) % 30000), i % 17 from n;
with recursive n(i) as (select 0 union all select i + 1 from n where i < 399999)
insert into orders
select i, (i * 48271) % 30000, (i * 69621) % 10007, printf('note %d of %d', i % 101, i) from n;
create index orders_by_customer on orders (customer, amount);
select c.region, count(*), sum(o.amount), max(o.note)
from orders o join customers c on c.id = o.customer group by c.region order by c.region;
select count(*), sum(length(a.note))
from orders a join orders b on b.customer = a.customer and b.amount = a.amount + 17;
select name, total from (
  select c.name, sum(o.amount) as total from customers c join orders o on o.customer = c.id
  group by c.id) order by total desc, name limit 5;
